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
