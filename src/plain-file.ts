/** Reads a file that another account or program may have put there: no link, FIFO or device, and no more than a limit. */
import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";

export interface PlainFileOptions {
  readonly maxBytes: number;
  /** Return the end of a larger file instead of refusing it. */
  readonly atEnd?: boolean;
}

/** Throws the system's error, such as ENOENT, and one with the code EINVAL or EFBIG. Never waits for a writer. */
export function readPlainFile(path: string, { maxBytes, atEnd = false }: PlainFileOptions): string {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const found = fstatSync(file);
    if (!found.isFile()) throw refused("EINVAL", `${path} is not a regular file`);
    if (found.size > maxBytes && !atEnd) throw refused("EFBIG", `${path} is larger than ${maxBytes} bytes`);
    return readFrom(file, Math.max(0, found.size - maxBytes), Math.min(found.size, maxBytes));
  } finally {
    closeSync(file);
  }
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
