/** Reads the end of a log file for messages. */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";

/** At most `bytes` from the end, in complete lines; for an unreadable log, a sentence. */
export function tailOf(file: string, bytes: number): string {
  try {
    const descriptor = openSync(file, "r");
    try {
      const { size } = fstatSync(descriptor);
      const buffer = Buffer.alloc(Math.min(bytes, size));
      const read = readSync(descriptor, buffer, 0, buffer.length, Math.max(0, size - buffer.length));
      const text = buffer.subarray(0, read).toString("utf8");
      return size > buffer.length ? text.slice(text.indexOf("\n") + 1) : text;
    } finally {
      closeSync(descriptor);
    }
  } catch {
    return `(${file} cannot be read)`;
  }
}
