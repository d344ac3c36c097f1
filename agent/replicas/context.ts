/** What the parts of the runner share. */
import type { Log } from "../../src/ports.ts";
import type { Moment } from "../../src/replica/desired.ts";
import type { Observed } from "../../src/replica/observed.ts";
import type { Timings } from "../../src/replica/timings.ts";
import type { Admission } from "./admission.ts";
import type { DesiredFiles } from "./files/desired-files.ts";
import type { HostCounts } from "./metrics/counts.ts";
import type { ReplicaRunnerPorts } from "./ports.ts";
import type { Runtimes } from "./runtimes.ts";
import type { ReplicaState } from "./state.ts";

export interface RunnerContext {
  readonly ports: ReplicaRunnerPorts;
  readonly log: Log;
  readonly timings: Timings;
  readonly admission: Admission;
  readonly runtimes: Runtimes;
  readonly desiredFiles: DesiredFiles;
  readonly counts: HostCounts;
  readonly states: Map<string, ReplicaState>;
  readonly signal: AbortSignal;
  readonly wasListed: () => boolean;
  /** Set once the agent was told to end its engines with itself. */
  readonly agentEnds: () => Observed["agentEnds"];
  readonly enqueue: (uid: string) => void;
  readonly moment: () => Moment;
  readonly random: () => number;
}
