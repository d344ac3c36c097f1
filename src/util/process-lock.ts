/** A lock between processes that the kernel releases when its holder dies, so that it can never be stale. */

import { constants } from "node:fs";
import { open, readFile } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { sha256Hex } from "./hash.ts";

export type Release = () => Promise<void>;

const TRY_AGAIN_MS = 20;
const GIVE_UP_MS = 10_000;
/** A macOS flag that Node does not name. The lock belongs to the open file and is released when the process exits. */
const O_EXLOCK = 0x20;
const isLinux = process.platform === "linux";

/** Waits for its turn; undefined when that takes too long. */
export async function waitForLock(name: string): Promise<Release | undefined> {
  for (const until = performance.now() + GIVE_UP_MS; ; await pause(TRY_AGAIN_MS)) {
    const release = await tryLock(name);
    if (release !== undefined || performance.now() > until) return release;
  }
}

/** Undefined when another process has it. */
export function tryLock(name: string): Promise<Release | undefined> {
  return isLinux ? bindAbstract(name) : lockFile(name);
}

/** Pid of the process that has it; undefined when none has, or when it is unknown. */
export async function holderOf(name: string): Promise<string | undefined> {
  const said = isLinux ? text(connect(abstractName(name))) : readFile(`${name}.lock`, "utf8");
  const pid = (await said.catch(() => "")).trim();
  return pid === "" ? undefined : pid;
}

/** Linux: a name in the kernel's own table of sockets, with no file behind it. */
function bindAbstract(name: string): Promise<Release | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => {
      socket.on("error", () => undefined);
      socket.end(String(process.pid));
    });
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE") resolve(undefined);
      else reject(error);
    });
    server.listen(abstractName(name), () => {
      resolve(() => new Promise((closed) => server.close(() => closed())));
    });
  });
}

function abstractName(name: string): string {
  return `\0metalbridge-${sha256Hex(name).slice(0, 32)}`;
}

/** macOS: a file opened with a lock on it, which holds the pid. */
async function lockFile(name: string): Promise<Release | undefined> {
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_NONBLOCK | O_EXLOCK;
  try {
    const file = await open(`${name}.lock`, flags, 0o600);
    await file.truncate();
    await file.write(String(process.pid));
    return () => file.close();
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EAGAIN") return undefined;
    throw error;
  }
}
