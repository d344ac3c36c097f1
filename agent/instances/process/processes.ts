/** Engine processes of one agent: start, adopt, and the one timer that all of them share. */
import type { EngineProcesses, ProcessPorts } from "./engine-process.ts";
import { startEngine } from "./start.ts";
import { createSweep } from "./sweep.ts";
import { watchEngine } from "./watch.ts";

export const PROCESS_SWEEP_MS = 10_000;

/** `const { startEngine, adoptEngine } = createEngineProcesses({ clock, log, identity: createIdentityReader(process.platform) })`. */
export function createEngineProcesses(ports: ProcessPorts): EngineProcesses {
  const sweep = createSweep({ ...ports, everyMs: ports.sweepMs ?? PROCESS_SWEEP_MS });
  const watchPorts = { ...ports, sweep };
  return {
    startEngine: (dir, command, onChange) => startEngine(dir, command, watchPorts, onChange),
    adoptEngine: (dir, onChange) => watchEngine(dir, watchPorts, onChange),
  };
}
