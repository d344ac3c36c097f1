/** Starts and adopts the engine processes of one agent, which share one timer. */
import type { EngineProcesses, ProcessPorts } from "./engine-process.ts";
import { startEngine } from "./start.ts";
import { createSweep } from "./sweep.ts";
import { watchEngine } from "./watch.ts";

const PROCESS_SWEEP_MS = 10_000;

export function createEngineProcesses(ports: ProcessPorts): EngineProcesses {
  const sweep = createSweep({ ...ports, everyMs: ports.sweepMs ?? PROCESS_SWEEP_MS });
  const watchPorts = { ...ports, sweep };
  return {
    startEngine: (dir, command, onChange) => startEngine(dir, command, watchPorts, onChange),
    adoptEngine: (dir, onChange) => watchEngine(dir, watchPorts, onChange),
  };
}
