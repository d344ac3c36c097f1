/** How engines run on this host: each in a process of its own, or several models in one shared daemon. */
import { join } from "node:path";
import type { Clock, Log } from "../../src/util/ports.ts";
import { createDaemons, type Daemons } from "./daemon/daemons.ts";
import { createIdentityReader } from "./process/identity/identity.ts";
import { createProcessInstances, type ProcessInstances } from "./process/process-instance.ts";
import { createEngineProcesses } from "./process/processes.ts";
import type { RotationLimits } from "./run-files/log-rotation.ts";

export interface Instances {
  /** The agent's state folder: engines may keep files of their own below it. */
  readonly stateDir: string;
  readonly processes: ProcessInstances;
  readonly daemons: Daemons;
}

/** Below the state folder: one folder per replica, one per shared daemon, one per gate. */
export const ENGINES_FOLDER = "engines";
export const DAEMONS_FOLDER = "daemons";
export const GATE_FOLDER = "gate";

export function createInstances(ports: {
  readonly stateDir: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly footprintBytes: (pid: number) => Promise<number | undefined>;
  readonly logLimits?: RotationLimits;
}): Instances {
  const identity = createIdentityReader(process.platform);
  const processes = createProcessInstances(createEngineProcesses({ ...ports, identity }), ports);
  return {
    stateDir: ports.stateDir,
    processes,
    daemons: createDaemons({ ...ports, processes, folder: join(ports.stateDir, DAEMONS_FOLDER) }),
  };
}
