/** The real clock, and the waits that were asked of it: a busy machine ends many of them in one instant, whatever was planned. */
import type { Clock } from "../../../util/ports.ts";
import { systemClock } from "../../system-clock.ts";

interface NotedWait {
  readonly atMs: number;
  readonly delayMs: number;
}

export interface NotingClock extends Clock {
  readonly waits: NotedWait[];
}

export function createNotingClock(): NotingClock {
  const waits: NotedWait[] = [];
  return {
    ...systemClock,
    waits,
    after: (delayMs, fire) => {
      waits.push({ atMs: systemClock.monotonicMs(), delayMs });
      return systemClock.after(delayMs, fire);
    },
  };
}

/** Longer ones are not pauses between attempts, but limits of silence. */
const MAX_PAUSE_MS = 60_000;

/** All pauses before this moment: when what was done then would have been done on a machine that is never late. */
export function pausedBefore({ waits }: NotingClock, atMs: number): number {
  return waits
    .filter((wait) => wait.atMs < atMs && wait.delayMs < MAX_PAUSE_MS)
    .reduce((sum, { delayMs }) => sum + delayMs, 0);
}
