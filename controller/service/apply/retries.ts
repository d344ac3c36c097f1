/** When to retry what was rejected: a raised quota, a granted right, a changed webhook or a changed Secret is not watched. */
import { backoffMs } from "../../../src/util/backoff.ts";

const FIRST_MS = 1_000;
const CAP_MS = 3_000;
/** Per rejected key: 2,000 of them are retried at 10 a second together. */
const MIN_SPACING_MS = 100;

export interface RejectionRetries {
  /** `key` is `namespace/name`. Undefined if nothing was rejected. `now` is monotonic. */
  readonly afterMs: (key: string, hasRejections: boolean, now: number) => number | undefined;
  readonly forget: (key: string) => void;
}

export function createRejectionRetries(): RejectionRetries {
  const sinceMs = new Map<string, number>();
  return {
    afterMs: (key, hasRejections, now) => {
      if (!hasRejections) sinceMs.delete(key);
      if (!hasRejections) return undefined;
      const startMs = sinceMs.get(key) ?? now;
      sinceMs.set(key, startMs);
      const capMs = Math.max(CAP_MS, sinceMs.size * MIN_SPACING_MS);
      // Doubles with the time since the first rejection, however often other changes cause a pass in between.
      return backoffMs(1, { firstMs: Math.max(FIRST_MS, now - startMs), capMs });
    },
    forget: (key) => sinceMs.delete(key),
  };
}
