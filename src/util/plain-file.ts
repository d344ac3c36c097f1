/** Safely reads a file that another account or program may have created: no link, FIFO or device, and no more than a limit. */
import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import { systemError } from "./atomic-file.ts";

export interface PlainFileOptions {
  readonly maxBytes: number;
  /** Return the end of a larger file instead of refusing it. */
  readonly atEnd?: boolean;
}

/** Throws the system error, such as ENOENT, or an error with the code EINVAL or EFBIG. Never waits for a writer. */
export function readPlainFile(path: string, { maxBytes, atEnd = false }: PlainFileOptions): string {
  const file = openPlainFile(path);
  if (file === undefined) throw systemError("EINVAL", `${path} is not a regular file`);
  try {
    const { size } = fstatSync(file);
    if (size > maxBytes && !atEnd) throw systemError("EFBIG", `${path} is larger than ${maxBytes} bytes`);
    return readFrom(file, Math.max(0, size - maxBytes), Math.min(size, maxBytes));
  } finally {
    closeSync(file);
  }
}

/** Opens a regular file for reading; undefined for any other type of file. Throws the system error: ELOOP for a link. Never waits for a writer. */
export function openPlainFile(path: string): number | undefined {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  if (fstatSync(file).isFile()) return file;
  closeSync(file);
  return undefined;
}

/** Ignores bytes that are appended during the read. */
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
