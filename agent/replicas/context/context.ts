/** Dependencies and state that the parts of the runner share. */

import type { Moment } from "../../../src/util/moment.ts";
import type { Log } from "../../../src/util/ports.ts";
import type { ObservedReplica } from "../evidence/observed.ts";
import type { Timings } from "../evidence/timings.ts";
import type { HostCounts } from "../state/counts.ts";
import type { DesiredFiles } from "../state/desired-files.ts";
import type { ReplicaState } from "../state/state.ts";
import type { MemoryAdmission } from "./admission.ts";
import type { ReplicaCluster, ReplicaRunnerPorts } from "./ports.ts";
import type { Runtimes } from "./runtimes.ts";

export interface RunnerContext {
  readonly ports: ReplicaRunnerPorts;
  readonly log: Log;
  readonly timings: Timings;
  readonly admission: MemoryAdmission;
  readonly runtimes: Runtimes;
  readonly desiredFiles: DesiredFiles;
  readonly counts: HostCounts;
  readonly states: Map<string, ReplicaState>;
  readonly signal: AbortSignal;
  /** Undefined before the first connection. */
  readonly cluster: () => ReplicaCluster | undefined;
  /** The address that this host serves on now. */
  readonly address: () => string | undefined;
  readonly wasListed: () => boolean;
  /** Set once the agent must stop its engines because it is about to exit. */
  readonly agentStop: () => ObservedReplica["agentStop"];
  readonly enqueue: (uid: string) => void;
  readonly moment: () => Moment;
  readonly random: () => number;
}
