/** Retries a small request while its failure is transient. */
import { SourceFailure } from "../../../src/hub/failure.ts";
import { waitMs } from "../../../src/kube/wait.ts";
import { backoffMs } from "../../../src/util/backoff.ts";
import type { Clock } from "../../../src/util/ports.ts";

export interface RetryLimits {
  readonly attempts: number;
  readonly firstBackoffMs: number;
}

const MAX_BACKOFF_MS = 30_000;
const JITTER = [0.75, 1.25] as const;

/** Throws the MetalbridgeError of the last failure. */
export async function withRetries<T>(
  run: () => Promise<T>,
  limits: RetryLimits,
  wait: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<T> {
  for (let failures = 1; ; failures += 1) {
    wait.signal.throwIfAborted();
    try {
      return await run();
    } catch (error) {
      wait.signal.throwIfAborted();
      if (!(error instanceof SourceFailure)) throw error;
      if (!error.isTransient || failures >= limits.attempts) throw error.error;
      await waitBeforeRetry(pauseBeforeRetryMs(failures, limits.firstBackoffMs, error.retryAfterMs), wait);
    }
  }
}

/** The backoff, or a longer Retry-After up to a limit. */
export function pauseBeforeRetryMs(
  failures: number,
  firstMs: number,
  retryAfterMs: number | undefined,
): number {
  const ownMs = backoffMs(failures, { firstMs, capMs: MAX_BACKOFF_MS, jitter: JITTER });
  return Math.max(ownMs, Math.min(Math.round(retryAfterMs ?? 0), MAX_BACKOFF_MS));
}

/** Rejects with the signal's reason when it is aborted. */
export async function waitBeforeRetry(
  delayMs: number,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<void> {
  await waitMs(clock, delayMs, signal);
  signal.throwIfAborted();
}
