/** Limits the log size of a part. The log is truncated in place, because the program keeps the file open. */
import { readFileSync, statSync, truncateSync, writeFileSync } from "node:fs";

const MAX_BYTES = 32 * 1024 * 1024;
const EVERY_MS = 10 * 60_000;

/** Checks the size now and periodically until aborted. The previous content is saved as `<log>.1`. */
export function limitLogSize(
  file: string,
  signal: AbortSignal,
  limits = { maxBytes: MAX_BYTES, everyMs: EVERY_MS },
): void {
  truncateIfLarge(file, limits.maxBytes);
  const timer = setInterval(() => truncateIfLarge(file, limits.maxBytes), limits.everyMs);
  timer.unref();
  signal.addEventListener("abort", () => clearInterval(timer), { once: true });
}

/** The program has the file open for appending, so it continues at the start of the truncated file. */
export function truncateIfLarge(file: string, maxBytes: number): boolean {
  try {
    if (statSync(file).size <= maxBytes) return false;
    writeFileSync(`${file}.1`, readFileSync(file), { mode: 0o600 });
    truncateSync(file, 0);
    return true;
  } catch {
    // Without a log, or without space for the copy, the next check retries.
    return false;
  }
}
