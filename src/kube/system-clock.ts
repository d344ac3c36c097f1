/** The real clock, which `main.ts` passes to all parts as a port. */
import type { Clock } from "../util/ports.ts";

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  after: (delayMs, fire) => {
    // Node truncates to whole milliseconds, and a caller that is woken early would have to wait again.
    const timer = setTimeout(fire, Math.ceil(delayMs));
    return () => clearTimeout(timer);
  },
};
