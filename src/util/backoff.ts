/** Exponential delays between attempts with jitter, so that clients that failed together do not retry together. */

export interface BackoffOptions {
  readonly firstMs: number;
  readonly capMs: number;
  /** Range of the random factor of the full delay; absent: from 0.5 to 1. */
  readonly jitter?: readonly [atRandom0: number, atRandom1: number];
}

const JITTER = [0.5, 1] as const;
/** Keeps the power of two finite. */
const MAX_DOUBLINGS = 30;

/** Delay in ms before attempt `failures + 1`. It doubles with each failure up to the cap. */
export function backoffMs(
  failures: number,
  { firstMs, capMs, jitter: [low, high] = JITTER }: BackoffOptions,
  random = Math.random(),
): number {
  const fullMs = Math.min(capMs, firstMs * 2 ** Math.min(Math.max(failures, 1) - 1, MAX_DOUBLINGS));
  return Math.round(fullMs * (low + (high - low) * random));
}

/** The backoff, or Retry-After if that is longer. All clients receive the same Retry-After, so each adds jitter. */
export function retryMs(
  failures: number,
  options: BackoffOptions,
  retryAfterMs: number | undefined,
  random = Math.random(),
): number {
  const ownMs = backoffMs(failures, options, random);
  return retryAfterMs === undefined ? ownMs : Math.max(ownMs, Math.ceil(retryAfterMs * (1 + random / 2)));
}
