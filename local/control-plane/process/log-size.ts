/** Keeps the log of a part from filling the disk: the programs append for as long as they run, so it is cut in place. */
import { readFileSync, statSync, truncateSync, writeFileSync } from "node:fs";

const MAX_BYTES = 32 * 1024 * 1024;
const EVERY_MS = 10 * 60_000;

/** Checks now and then until aborted; what was written last is kept beside the log, as `<log>.1`. */
export function limitLogSize(
  file: string,
  signal: AbortSignal,
  limits = { maxBytes: MAX_BYTES, everyMs: EVERY_MS },
): void {
  const timer = setInterval(() => truncateIfLarge(file, limits.maxBytes), limits.everyMs);
  timer.unref();
  signal.addEventListener("abort", () => clearInterval(timer), { once: true });
}

/** The programs hold the file open for appending, so after the cut they continue at its start. */
export function truncateIfLarge(file: string, maxBytes: number): boolean {
  try {
    if (statSync(file).size <= maxBytes) return false;
    writeFileSync(`${file}.1`, readFileSync(file), { mode: 0o600 });
    truncateSync(file, 0);
    return true;
  } catch {
    // No log, or no room for the copy: retried in the next round.
    return false;
  }
}
