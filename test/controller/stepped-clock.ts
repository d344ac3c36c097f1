/** A clock that runs, and can be set forward: forty seconds of silence pass in no time. For tests. */
import type { Clock } from "../../src/util/ports.ts";

export interface SteppedClock extends Clock {
  /** Moves on and fires what has become due. */
  readonly advance: (ms: number) => void;
}

interface Alarm {
  readonly atMs: number;
  readonly fire: () => void;
  timer: NodeJS.Timeout;
}

/** A clock that moves only when a test advances it: then all that has become due fires, each at its time. */
export function createStandingClock(): SteppedClock {
  const startMs = Date.now();
  let passedMs = 0;
  const alarms = new Set<{ readonly atMs: number; readonly fire: () => void }>();
  return {
    nowMs: () => startMs + passedMs,
    monotonicMs: () => passedMs,
    after: (delayMs, fire) => {
      const alarm = { atMs: passedMs + Math.max(0, delayMs), fire };
      alarms.add(alarm);
      return () => alarms.delete(alarm);
    },
    advance: (ms) => {
      const untilMs = passedMs + ms;
      const nextDue = () =>
        [...alarms].filter(({ atMs }) => atMs <= untilMs).sort((a, b) => a.atMs - b.atMs)[0];
      for (let alarm = nextDue(); alarm !== undefined; alarm = nextDue()) {
        alarms.delete(alarm);
        passedMs = Math.max(passedMs, alarm.atMs);
        alarm.fire();
      }
      passedMs = untilMs;
    },
  };
}

export function createSteppedClock(): SteppedClock {
  let offsetMs = 0;
  const alarms = new Set<Alarm>();
  const monotonicMs = () => performance.now() + offsetMs;
  const arm = (alarm: Alarm) => {
    clearTimeout(alarm.timer);
    alarm.timer = setTimeout(
      () => {
        alarms.delete(alarm);
        alarm.fire();
      },
      Math.max(0, alarm.atMs - monotonicMs()),
    );
    alarm.timer.unref();
  };
  return {
    nowMs: () => Date.now() + offsetMs,
    monotonicMs,
    after: (delayMs, fire) => {
      const alarm: Alarm = { atMs: monotonicMs() + delayMs, fire, timer: setTimeout(() => {}, 0) };
      alarms.add(alarm);
      arm(alarm);
      return () => {
        clearTimeout(alarm.timer);
        alarms.delete(alarm);
      };
    },
    advance: (ms) => {
      offsetMs += ms;
      for (const alarm of [...alarms]) arm(alarm);
    },
  };
}
