/** Delays between attempts: exponential with jitter, so that many clients do not come back in step. */

export interface BackoffOptions {
  readonly firstMs: number;
  readonly capMs: number;
}

/** Delay before attempt `attempt + 1`; `attempt` counts failures so far, from 1. Between half and all of the full delay. */
export function backoffMs(
  attempt: number,
  { firstMs, capMs }: BackoffOptions,
  random = Math.random(),
): number {
  const full = Math.min(capMs, firstMs * 2 ** Math.min(Math.max(attempt, 1) - 1, 30));
  return Math.round(full * (0.5 + random / 2));
}

/** The same, but honors Retry-After. All clients get the same value, so each adds jitter to it. */
export function retryMs(
  attempt: number,
  options: BackoffOptions,
  retryAfterMs: number | undefined,
  random = Math.random(),
): number {
  const ownMs = backoffMs(attempt, options, random);
  return retryAfterMs === undefined ? ownMs : Math.max(ownMs, Math.ceil(retryAfterMs * (1 + random / 2)));
}
