/** Schedules retries after a rejection. Its cause, such as a quota, a permission, a webhook or a Secret, is not watched. */
import { backoffMs } from "../../../src/util/backoff.ts";

const FIRST_MS = 1_000;
const CAP_MS = 3_000;
/** Minimum delay per rejected key, so that all keys together are retried at most 10 times per second. */
const MIN_SPACING_MS = 100;

export interface RejectionRetries {
  /** Notes the result of a pass over `key` (`namespace/name`). Returns the delay until its retry; undefined if nothing was rejected. `now` is monotonic. */
  readonly note: (key: string, hasRejections: boolean, now: number) => number | undefined;
  readonly forget: (key: string) => void;
}

export function createRejectionRetries(): RejectionRetries {
  const sinceMs = new Map<string, number>();
  return {
    note: (key, hasRejections, now) => {
      if (!hasRejections) sinceMs.delete(key);
      if (!hasRejections) return undefined;
      const startMs = sinceMs.get(key) ?? now;
      sinceMs.set(key, startMs);
      const capMs = Math.max(CAP_MS, sinceMs.size * MIN_SPACING_MS);
      // Depends on the time since the first rejection, because other changes may cause passes in between.
      return backoffMs(1, { firstMs: Math.max(FIRST_MS, now - startMs), capMs });
    },
    forget: (key) => sinceMs.delete(key),
  };
}
