/** The real clock. Made once in a `main.ts` and passed on as the port. */
import type { Clock } from "../util/ports.ts";

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  after: (delayMs, fire) => {
    // Node cuts off what is less than a millisecond, and who is woken early has to wait once more.
    const timer = setTimeout(fire, Math.ceil(delayMs));
    return () => clearTimeout(timer);
  },
};
