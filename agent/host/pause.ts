/** Detects that the machine slept or this process was paused, from both clocks at two times. */
import type { Clock, Log } from "../../src/util/ports.ts";

/** Both clocks, read together. */
interface Moment {
  readonly wallMs: number;
  readonly monotonicMs: number;
}

export interface Pause {
  /** The approximate length of the pause. */
  readonly pausedMs: number;
  /** The part that the monotonic clock counted: all of it if that clock runs during sleep, else none. */
  readonly countedMs: number;
}

/** A busy machine fires timers late; a shorter gap is not a sleep, and is harmless. */
const TOLERANCE_MS = 10_000;

/**
 * The pause between two readings that should have been `expectedMs` apart. A wall clock that is set forward looks like a sleep,
 * which costs some requests; one that is set back is not a pause.
 */
export function findPause(before: Moment, now: Moment, expectedMs: number): Pause | undefined {
  const passedMs = now.monotonicMs - before.monotonicMs;
  const uncountedMs = Math.max(0, now.wallMs - before.wallMs - passedMs);
  const countedMs = Math.max(0, passedMs - expectedMs);
  if (countedMs < TOLERANCE_MS && uncountedMs < TOLERANCE_MS) return undefined;
  return { pausedMs: countedMs + uncountedMs, countedMs };
}

/** Returns a function to call periodically; it reports each pause once. */
export function createPauseWatch(ports: {
  readonly clock: Clock;
  readonly log: Log;
  readonly onPause: (pause: Pause) => void;
}): (everyMs: number) => void {
  const { clock, log, onPause } = ports;
  const read = (): Moment => ({ wallMs: clock.nowMs(), monotonicMs: clock.monotonicMs() });
  let last = read();
  return (everyMs) => {
    const now = read();
    const pause = findPause(last, now, everyMs);
    last = now;
    if (pause === undefined) return;
    log.warn({ ...pause }, "the machine slept or the agent was paused; renewing the Lease, lists and probes");
    onPause(pause);
  };
}
