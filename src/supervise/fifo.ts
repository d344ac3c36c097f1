/** FIFOs as liveness signals: while a process holds the write end, it is alive. */
import { execFile } from "node:child_process";
import { closeSync, constants, openSync, readSync } from "node:fs";
import { Socket } from "node:net";
import { join } from "node:path";

/** Creates all FIFOs with one child process: Node cannot create them, and each child costs milliseconds. */
export function makeFifos(paths: readonly string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    execFile("mkfifo", ["-m", "600", ...paths], { timeout: 10_000 }, (error, _out, text) => {
      if (error === null) resolve();
      else reject(new Error(`mkfifo failed: ${text.trim() || error.message}`, { cause: error }));
    });
  });
}

/** The reading end of a FIFO. */
export interface HeldFifo {
  readonly isHeld: () => boolean;
  /** Opens the FIFO again, in case its end was not reported. */
  readonly recheck: () => void;
  readonly close: () => void;
}

/**
 * Reads once, then watches; calls `onChange` on a message and when the FIFO is released. A missing FIFO counts as not held.
 * Throws if the FIFO exists but cannot be opened.
 */
export function holdFifo(dir: string, name: string, onChange: () => void): HeldFifo {
  const path = join(dir, name);
  const fd = openReader(path);
  let isHeldNow = fd !== undefined && isHeldOrClose(fd);
  let socket: Socket | undefined;
  const end = () => {
    if (!isHeldNow) return;
    isHeldNow = false;
    socket?.destroy();
    onChange();
  };
  if (fd !== undefined && isHeldNow) socket = listen(fd, onChange, end);
  return {
    isHeld: () => isHeldNow,
    recheck: () => {
      if (isHeldNow && isReleased(path)) end();
    },
    close: () => {
      isHeldNow = false;
      socket?.destroy();
    },
  };
}

function listen(fd: number, onData: () => void, onEnd: () => void): Socket {
  const socket = new Socket({ fd, readable: true, writable: false });
  socket.on("data", onData);
  socket.on("end", onEnd);
  socket.on("error", onEnd);
  socket.unref();
  return socket;
}

/** Opens the FIFO without waiting for a writer. */
function openReader(path: string): number | undefined {
  try {
    return openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Needed in addition to the socket: if no process has held the FIFO since it was opened, the socket gets no `end`. */
function isHeld(fd: number): boolean {
  const buffer = new Uint8Array(64);
  for (;;) {
    try {
      if (readSync(fd, buffer) === 0) return false;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EAGAIN") return true;
      throw error;
    }
  }
}

/** Closes the descriptor unless there is a process to watch. */
function isHeldOrClose(fd: number): boolean {
  let isHeldNow = false;
  try {
    isHeldNow = isHeld(fd);
    return isHeldNow;
  } finally {
    if (!isHeldNow) closeSync(fd);
  }
}

function isReleased(path: string): boolean {
  const fd = openReader(path);
  if (fd === undefined) return false;
  const isHeldNow = isHeldOrClose(fd);
  if (isHeldNow) closeSync(fd);
  return !isHeldNow;
}

/** Opens both ends of a FIFO, in the order that never blocks. */
export function openBothEnds(path: string): { readonly reader: number; readonly writer: number } {
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    return { reader, writer: openSync(path, constants.O_WRONLY) };
  } catch (error) {
    closeSync(reader);
    throw error;
  }
}
