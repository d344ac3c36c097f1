/** Reads a file that another account or program may have put there: no link, FIFO or device, and no more than a limit. */
import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";

export interface PlainFileOptions {
  readonly maxBytes: number;
  /** Return the end of a larger file instead of refusing it. */
  readonly atEnd?: boolean;
}

/** Throws the system's error, such as ENOENT, and one with the code EINVAL or EFBIG. Never waits for a writer. */
export function readPlainFile(path: string, { maxBytes, atEnd = false }: PlainFileOptions): string {
  const file = openPlainFile(path);
  if (file === undefined) throw refused("EINVAL", `${path} is not a regular file`);
  try {
    const { size } = fstatSync(file);
    if (size > maxBytes && !atEnd) throw refused("EFBIG", `${path} is larger than ${maxBytes} bytes`);
    return readFrom(file, Math.max(0, size - maxBytes), Math.min(size, maxBytes));
  } finally {
    closeSync(file);
  }
}

/** A descriptor for reading; undefined if it is no regular file. Throws the system's error: ELOOP for a link. Never waits for a writer. */
export function openPlainFile(path: string): number | undefined {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  if (fstatSync(file).isFile()) return file;
  closeSync(file);
  return undefined;
}

/** What is appended meanwhile is left out. */
function readFrom(file: number, start: number, bytes: number): string {
  const buffer = Buffer.alloc(bytes);
  let filled = 0;
  while (filled < bytes) {
    const read = readSync(file, buffer, filled, bytes - filled, start + filled);
    if (read === 0) break;
    filled += read;
  }
  return buffer.toString("utf8", 0, filled);
}

function refused(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}
