/** A clock that moves only when a test advances it; timers fire in the same call. */
import type { Clock } from "../../src/util/ports.ts";

export interface ManualClock extends Clock {
  /** Advances the clock, and fires due timers in order. */
  readonly advance: (ms: number) => void;
}

export function manualClock(startMs = 0): ManualClock {
  let now = startMs;
  let timers: { readonly at: number; readonly fire: () => void }[] = [];
  return {
    nowMs: () => now,
    monotonicMs: () => now,
    after: (delayMs, fire) => {
      const timer = { at: now + delayMs, fire };
      timers.push(timer);
      return () => {
        timers = timers.filter((one) => one !== timer);
      };
    },
    advance: (ms) => {
      const end = now + ms;
      for (;;) {
        const next = timers.filter(({ at }) => at <= end).toSorted((a, b) => a.at - b.at)[0];
        if (next === undefined) break;
        now = next.at;
        timers = timers.filter((one) => one !== next);
        next.fire();
      }
      now = end;
    },
  };
}
