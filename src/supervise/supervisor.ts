/** Starts and adopts the processes of one program, which share one timer. */

import { startProcess } from "./start.ts";
import type { Supervisor, SupervisorPorts } from "./supervised.ts";
import { createSweep } from "./sweep.ts";
import { watchProcess } from "./watch.ts";

const PROCESS_SWEEP_MS = 10_000;

export function createSupervisor(ports: SupervisorPorts): Supervisor {
  const sweep = createSweep({ ...ports, everyMs: ports.sweepMs ?? PROCESS_SWEEP_MS });
  const watchPorts = { ...ports, sweep };
  return {
    start: (dir, command, onChange) => startProcess(dir, command, watchPorts, onChange),
    adopt: (dir, onChange) => watchProcess(dir, watchPorts, onChange),
  };
}
