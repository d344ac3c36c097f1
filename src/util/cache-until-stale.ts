/** Remembers an answer for a while. */
import type { Clock } from "./ports.ts";

/** Reads again once the result is older than `maxAgeMs`; one read at a time. */
export function cacheUntilStale<T>(
  clock: Clock,
  maxAgeMs: (answer: T) => number,
  ask: () => Promise<T>,
): () => Promise<T> {
  let answer: { readonly value: Promise<T>; staleAtMs: number } | undefined;
  return () => {
    const nowMs = clock.monotonicMs();
    if (answer !== undefined && nowMs < answer.staleAtMs) return answer.value;
    const mine = { value: ask(), staleAtMs: Number.POSITIVE_INFINITY };
    answer = mine;
    mine.value.then(
      (value) => {
        // From the answer on: one that takes longer than it may be old would be asked for without a pause.
        mine.staleAtMs = clock.monotonicMs() + maxAgeMs(value);
      },
      () => {
        if (answer === mine) answer = undefined;
      },
    );
    return mine.value;
  };
}
