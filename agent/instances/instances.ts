/** Creates the two kinds of instances: engines in separate processes, and models in shared daemons. */
import { join } from "node:path";
import { createIdentityReader } from "../../src/supervise/identity/identity.ts";
import type { RotationLimits } from "../../src/supervise/log-rotation.ts";
import { createSupervisor } from "../../src/supervise/supervisor.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { createDaemons, type Daemons } from "./daemon/daemons.ts";
import { createProcessInstances, type ProcessInstances } from "./process/process-instance.ts";

export interface Instances {
  /** The agent's state folder, below which engines may keep their own files. */
  readonly stateDir: string;
  readonly processes: ProcessInstances;
  readonly daemons: Daemons;
}

/** Folders below the state folder, with one folder per replica, per shared daemon and per gate. */
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
  const processes = createProcessInstances(createSupervisor({ ...ports, identity }), ports);
  return {
    stateDir: ports.stateDir,
    processes,
    daemons: createDaemons({ ...ports, processes, folder: join(ports.stateDir, DAEMONS_FOLDER) }),
  };
}
