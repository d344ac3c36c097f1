/** Caches a result for a limited time. */
import type { Clock } from "./ports.ts";

/** Calls `read` again once the result is older than `maxAgeMs`. There is at most one read at a time. */
export function cacheUntilStale<T>(
  clock: Clock,
  maxAgeMs: (result: T) => number,
  read: () => Promise<T>,
): () => Promise<T> {
  let cached: { readonly value: Promise<T>; staleAtMs: number } | undefined;
  return () => {
    const nowMs = clock.monotonicMs();
    if (cached !== undefined && nowMs < cached.staleAtMs) return cached.value;
    const current = { value: read(), staleAtMs: Number.POSITIVE_INFINITY };
    cached = current;
    current.value.then(
      (value) => {
        // The age counts from the end of the read, because a read that takes longer than the age would be repeated without a pause.
        current.staleAtMs = clock.monotonicMs() + maxAgeMs(value);
      },
      () => {
        if (cached === current) cached = undefined;
      },
    );
    return current.value;
  };
}
