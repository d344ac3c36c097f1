/** The fallback behind the FIFOs: one slow timer compares pid and start time of all watched processes. */

import type { IdentityReader, LivingProcess } from "../macos/living-process.ts";
import type { Clock, Log } from "../util/ports.ts";
import { msToAlignedTime } from "../util/shared-ticks.ts";

export interface Swept {
  readonly pids: () => readonly number[];
  readonly check: (living: ReadonlyMap<number, LivingProcess>) => void;
}

export interface ProcessSweep {
  readonly add: (swept: Swept) => void;
  readonly remove: (swept: Swept) => void;
}

/** Runs only while there are processes to watch. */
export function createSweep(ports: {
  readonly clock: Clock;
  readonly log: Log;
  readonly identity: IdentityReader;
  readonly everyMs: number;
}): ProcessSweep {
  const all = new Set<Swept>();
  let cancel: (() => void) | undefined;
  const schedule = () => {
    if (all.size === 0 || cancel !== undefined) return;
    cancel = ports.clock.after(msToAlignedTime(ports.clock.monotonicMs(), ports.everyMs), () => {
      run()
        .catch((err: unknown) => ports.log.error({ err }, "comparing processes failed"))
        .finally(() => {
          cancel = undefined;
          schedule();
        });
    });
  };
  const run = async () => {
    const processes = [...all];
    const living = await ports.identity.observe(processes.flatMap((watched) => watched.pids()));
    if (living === "unknown") return;
    for (const watched of processes) if (all.has(watched)) checkOne(watched, living);
  };
  const checkOne = (watched: Swept, living: ReadonlyMap<number, LivingProcess>) => {
    try {
      watched.check(living);
    } catch (error) {
      ports.log.error({ err: error }, "comparing a process failed");
    }
  };
  return {
    add: (swept) => {
      all.add(swept);
      schedule();
    },
    remove: (swept) => {
      all.delete(swept);
      if (all.size > 0) return;
      cancel?.();
      cancel = undefined;
    },
  };
}
