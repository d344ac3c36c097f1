/** Rotates a log that a process has open: reads it to the end, then truncates it, on one descriptor. */
import {
  closeSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";

const CHUNK_BYTES = 1 << 20;
/** Logs are checked every few seconds, so a log usually exceeds its limit slightly; up to this factor nothing is lost. */
const MAX_COPY_FACTOR = 2;

export interface RotationLimits {
  /** Rotates above this size. An old file is at most twice as large. */
  readonly maxBytes: number;
  /** Number of old files (`log.1`, `log.2`, …) to keep. */
  readonly keep: number;
}

/** Default limits of a log. */
export const LOG_LIMITS: RotationLimits = { maxBytes: 16 * 1024 * 1024, keep: 3 };

/**
 * The process appends, so it continues at 0 after the truncation. If the log exceeds twice the limit, only its end is copied,
 * and output that arrives faster than it can be copied is lost. If the copy cannot be written (disk full), the log is
 * truncated anyway.
 */
export function rotateLog(
  dir: string,
  limits: RotationLimits,
): { readonly rotated: boolean; readonly lostBytes: number } {
  const fd = openLog(join(dir, "log"));
  if (fd === undefined) return { rotated: false, lostBytes: 0 };
  try {
    const { size } = fstatSync(fd);
    if (size <= limits.maxBytes) return { rotated: false, lostBytes: 0 };
    const maxBytes = MAX_COPY_FACTOR * limits.maxBytes;
    const from = size > maxBytes ? size - limits.maxBytes : 0;
    const copiedTo = limits.keep > 0 ? copyFrom(fd, join(dir, "log.tmp"), { from, maxBytes }) : undefined;
    const written = fstatSync(fd).size;
    ftruncateSync(fd, 0);
    if (copiedTo === undefined) rmSync(join(dir, "log.tmp"), { force: true, recursive: true });
    else shift(dir, limits.keep);
    return { rotated: true, lostBytes: copiedTo === undefined ? written : written - copiedTo + from };
  } finally {
    closeSync(fd);
  }
}

/** Opens the log for appending and reading. A log that cannot be opened is not rotated. */
function openLog(path: string): number | undefined {
  try {
    return openSync(path, "a+");
  } catch {
    return undefined;
  }
}

/**
 * Copies at most `maxBytes` bytes and returns where it stopped. Synchronous, so that as little as possible is written between
 * the last read and the truncation. Without `maxBytes` it would never catch up with a process that writes faster.
 */
export function copyFrom(
  log: number,
  path: string,
  { from, maxBytes }: { readonly from: number; readonly maxBytes: number },
  flags: "w" | "a" = "w",
): number | undefined {
  const buffer = new Uint8Array(CHUNK_BYTES);
  let copy: number | undefined;
  try {
    copy = openSync(path, flags, 0o600);
    let position = from;
    for (;;) {
      const bytes = readSync(log, buffer, 0, Math.min(buffer.length, from + maxBytes - position), position);
      if (bytes === 0) return position;
      writeAll(copy, buffer.subarray(0, bytes));
      position += bytes;
    }
  } catch {
    return undefined;
  } finally {
    if (copy !== undefined) closeSync(copy);
  }
}

function writeAll(fd: number, bytes: Uint8Array): void {
  for (let written = 0; written < bytes.length; ) written += writeSync(fd, bytes, written);
}

function shift(dir: string, keep: number): void {
  for (let index = keep - 1; index >= 1; index -= 1) {
    try {
      renameSync(join(dir, `log.${index}`), join(dir, `log.${index + 1}`));
    } catch {
      // There are fewer old files.
    }
  }
  renameSync(join(dir, "log.tmp"), join(dir, "log.1"));
}
