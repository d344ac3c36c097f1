/** When to retry what the API server rejected: a raised quota or a changed webhook is not watched. */
import { backoffMs } from "../../src/backoff.ts";

const FIRST_MS = 1_000;
const CAP_MS = 60_000;

export interface RejectionRetries {
  /** Undefined where nothing was rejected. `now` is monotonic. */
  readonly afterMs: (service: string, hasRejections: boolean, now: number) => number | undefined;
  readonly forget: (service: string) => void;
}

export function createRejectionRetries(): RejectionRetries {
  const sinceMs = new Map<string, number>();
  return {
    afterMs: (service, hasRejections, now) => {
      if (!hasRejections) sinceMs.delete(service);
      if (!hasRejections) return undefined;
      const startMs = sinceMs.get(service) ?? now;
      sinceMs.set(service, startMs);
      // Doubles with the time since the first rejection, however often other changes cause a pass in between.
      return backoffMs(1, { firstMs: Math.max(FIRST_MS, now - startMs), capMs: CAP_MS });
    },
    forget: (service) => sinceMs.delete(service),
  };
}
