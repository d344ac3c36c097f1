/** One moment on both clocks: objects of the API carry wall time, durations are counted on the monotonic clock. */
import type { Clock } from "./ports.ts";

export interface Moment {
  readonly wallMs: number;
  readonly monotonicMs: number;
}

export function momentOf(clock: Clock): Moment {
  return { wallMs: clock.nowMs(), monotonicMs: clock.monotonicMs() };
}
