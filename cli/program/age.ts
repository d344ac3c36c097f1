/** Formats time spans. Pure. */

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** "45s", "3m12s", "5h3m", "2d4h", "45d": at most two units. */
export function formatSpan(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / SECOND)) * SECOND;
  if (seconds < 2 * MINUTE) return `${seconds / SECOND}s`;
  if (seconds < HOUR) return two(seconds, MINUTE, "m", SECOND, "s");
  if (seconds < DAY) return two(seconds, HOUR, "h", MINUTE, "m");
  if (seconds < 8 * DAY) return two(seconds, DAY, "d", HOUR, "h");
  return `${Math.floor(seconds / DAY)}d`;
}

/** The time since a timestamp of the API. Undefined for an absent or invalid timestamp. */
export function ageOf(timestamp: string | undefined, nowMs: number): string | undefined {
  const at = timestamp === undefined ? Number.NaN : Date.parse(timestamp);
  return Number.isNaN(at) ? undefined : formatSpan(nowMs - at);
}

/** "3m12s ago" */
export function agoOf(timestamp: string | undefined, nowMs: number): string | undefined {
  const age = ageOf(timestamp, nowMs);
  return age && `${age} ago`;
}

function two(ms: number, large: number, largeUnit: string, small: number, smallUnit: string): string {
  const remainder = Math.floor((ms % large) / small);
  return `${Math.floor(ms / large)}${largeUnit}${remainder === 0 ? "" : `${remainder}${smallUnit}`}`;
}
