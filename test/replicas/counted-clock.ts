/** A clock whose timers are counted, for "an agent looks again and changes nothing". */
import { expect } from "vitest";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { Clock } from "../../src/util/ports.ts";
import { until } from "../bed/until.ts";

export interface CountedClock {
  readonly clock: Clock;
  /** Resolves once that many more timers have fired: an agent with nothing else to do has looked again as often. */
  readonly untilFired: (count: number) => Promise<void>;
}

export function countedClock(): CountedClock {
  let fired = 0;
  const after: Clock["after"] = (delayMs, fire) =>
    systemClock.after(delayMs, () => {
      fired += 1;
      fire();
    });
  return {
    clock: { ...systemClock, after },
    untilFired: (count) => {
      const enough = fired + count;
      return until(() => expect(fired).toBeGreaterThanOrEqual(enough));
    },
  };
}
