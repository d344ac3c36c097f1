/** Rotation of a log that an engine has open: read to the end, then truncate, on one descriptor. */
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
/**
 * A log is checked every few seconds, so it usually exceeds its limit a little: that alone must lose nothing.
 */
const MAX_COPY_FACTOR = 2;

export interface RotationLimits {
  /** Rotate above this size; no kept file is larger than twice this. */
  readonly maxBytes: number;
  /** How many old files `log.1`, `log.2`, … stay. */
  readonly keep: number;
}

/** Of an engine's log, where nothing else is said. */
export const LOG_LIMITS: RotationLimits = { maxBytes: 16 * 1024 * 1024, keep: 3 };

/**
 * Returns whether it rotated. The engine appends, so it continues at 0 after the truncation. If the log
 * exceeds twice the limit, only its end is copied, and what an engine adds faster than it can be copied is
 * lost; if the copy cannot be written (disk full), the log is truncated anyway.
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

/** Opened for appending and reading; a log that was never written needs no rotation. */
function openLog(path: string): number | undefined {
  try {
    return openSync(path, "a+");
  } catch {
    return undefined;
  }
}

/**
 * Copies at most `most` bytes and answers where it stopped. Synchronous to the last byte, so that as little
 * as possible is written between the last read and the truncation. Without `most` it would chase an engine
 * that writes faster than it copies.
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
      // That many old files do not exist yet.
    }
  }
  renameSync(join(dir, "log.tmp"), join(dir, "log.1"));
}
