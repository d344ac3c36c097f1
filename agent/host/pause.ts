/** Did the machine sleep, or this process stand still? Told from both clocks at two moments. */
import type { Clock, Log } from "../../src/ports.ts";

/** Both clocks, read together. */
interface Moment {
  readonly wallMs: number;
  readonly monotonicMs: number;
}

export interface Pause {
  /** About how long nothing ran. */
  readonly pausedMs: number;
  /** How much of that the monotonic clock counted: all on a system whose clock runs on in sleep, else nothing. */
  readonly countedMs: number;
}

/** A busy machine fires timers late; less than this is no sleep, and would do no harm either. */
const TOLERANCE_MS = 10_000;

/**
 * The time between two looks that should have been `expectedMs` apart. A wall clock that was set forward looks like a
 * sleep, which costs some requests; one that was set back is nothing.
 */
export function findPause(before: Moment, now: Moment, expectedMs: number): Pause | undefined {
  const passedMs = now.monotonicMs - before.monotonicMs;
  const uncountedMs = Math.max(0, now.wallMs - before.wallMs - passedMs);
  const countedMs = Math.max(0, passedMs - expectedMs);
  if (countedMs < TOLERANCE_MS && uncountedMs < TOLERANCE_MS) return undefined;
  return { pausedMs: countedMs + uncountedMs, countedMs };
}

/** A function to be called every so often; it tells of each pause once. */
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
    log.warn({ ...pause }, "the machine slept or the agent stood still; Lease, lists and probes are renewed");
    onPause(pause);
  };
}
