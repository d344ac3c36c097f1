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
