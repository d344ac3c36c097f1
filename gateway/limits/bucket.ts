/** A token bucket: refills steadily, up to one minute's worth. Pure. */

const MINUTE_MS = 60_000;
/** After the exact wait, the level may miss its target by the rounding of numbers. */
const ROUNDING = 1e-6;

/** May be negative: the size of a request is known only at its end. */
export interface Bucket {
  readonly level: number;
  readonly atMs: number;
}

export function fullBucket(perMinute: number, nowMs: number): Bucket {
  return { level: perMinute, atMs: nowMs };
}

/** A clock that was set back refills nothing. */
export function refill({ level, atMs }: Bucket, perMinute: number, nowMs: number): Bucket {
  const added = (Math.max(0, nowMs - atMs) * perMinute) / MINUTE_MS;
  return { level: Math.min(perMinute, level + added), atMs: nowMs };
}

export function take({ level, atMs }: Bucket, amount: number): Bucket {
  return { level: level - amount, atMs };
}

/** Time until one unit is in the bucket, or until it is full if it holds less than one; 0 if a request is admitted now. */
export function waitMs({ level }: Bucket, perMinute: number): number {
  const missing = Math.min(1, perMinute) - level;
  return missing <= ROUNDING ? 0 : (missing * MINUTE_MS) / perMinute;
}
