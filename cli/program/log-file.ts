/** The agent's own log file, rotated by the agent: launchd keeps its descriptor, so newsyslog cannot rotate what it opened. */
import {
  closeSync,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";

export interface LogFileLimits {
  /** A line that would make the file larger begins a new one. */
  readonly maxBytes: number;
  /** How many old files `.1`, `.2`, … stay. */
  readonly keep: number;
}

export interface LogFile {
  /** Whole lines. A line that cannot be written (disk full) is dropped: the agent keeps running. */
  readonly write: (text: string) => void;
}

/** Throws the system's error when it cannot be opened at first: a wrong path is found at start, not months later. */
export function openLogFile(path: string, { maxBytes, keep }: LogFileLimits): LogFile {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  let fd: number | undefined = openSync(path, "a", 0o600);
  const close = (): void => {
    if (fd !== undefined) closeSync(fd);
    fd = undefined;
  };
  const write = (text: string): void => {
    if (fd !== undefined && !isStillThere(fd, path)) close();
    fd ??= openSync(path, "a", 0o600);
    const { size } = fstatSync(fd);
    if (size > 0 && size + Buffer.byteLength(text) > maxBytes) {
      close();
      shift(path, keep);
      fd = openSync(path, "a", 0o600);
    }
    writeSync(fd, text);
  };
  return {
    write: (text) => {
      try {
        write(text);
      } catch {
        // A full disk or a removed folder: the next line is written as soon as that is possible.
      }
    },
  };
}

/** launchd's file for standard error grows with each crash; nothing else bounds it. */
export function trimCrashLog(maxBytes: number): void {
  try {
    const found = fstatSync(2);
    if (found.isFile() && found.size > maxBytes) ftruncateSync(2, 0);
  } catch {
    // No standard error, or not ours to change.
  }
}

/** False after the file was removed or moved: without this the log would grow unseen. */
function isStillThere(fd: number, path: string): boolean {
  const named = statSync(path, { throwIfNoEntry: false });
  return named !== undefined && named.ino === fstatSync(fd).ino;
}

function shift(path: string, keep: number): void {
  if (keep === 0) rmSync(path, { force: true });
  for (let index = keep - 1; index >= 0; index -= 1) {
    const from = index === 0 ? path : `${path}.${index}`;
    if (statSync(from, { throwIfNoEntry: false }) !== undefined) renameSync(from, `${path}.${index + 1}`);
  }
}
