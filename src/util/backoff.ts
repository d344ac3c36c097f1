/** Delays between attempts: exponential with jitter, so that what failed together does not come back in step. */

export interface BackoffOptions {
  readonly firstMs: number;
  readonly capMs: number;
  /** Shares of the full delay between which it is drawn. Half and all of it, unless given. */
  readonly jitter?: readonly [atRandom0: number, atRandom1: number];
}

const JITTER = [0.5, 1] as const;
/** Keeps the power of two finite. */
const MAX_DOUBLINGS = 30;

/** Delay in ms before attempt `failures + 1`: doubles with each failure (from 1) up to the cap. */
export function backoffMs(
  failures: number,
  { firstMs, capMs, jitter: [low, high] = JITTER }: BackoffOptions,
  random = Math.random(),
): number {
  const fullMs = Math.min(capMs, firstMs * 2 ** Math.min(Math.max(failures, 1) - 1, MAX_DOUBLINGS));
  return Math.round(fullMs * (low + (high - low) * random));
}

/** The same, but honors Retry-After. All clients get the same value, so each adds jitter to it. */
export function retryMs(
  failures: number,
  options: BackoffOptions,
  retryAfterMs: number | undefined,
  random = Math.random(),
): number {
  const ownMs = backoffMs(failures, options, random);
  return retryAfterMs === undefined ? ownMs : Math.max(ownMs, Math.ceil(retryAfterMs * (1 + random / 2)));
}
