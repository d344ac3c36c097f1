/** Dependencies of every reconciler of the controller. */
import type { Fitness } from "../../src/capacity/fitness.ts";
import type { ScoreWeights } from "../../src/capacity/score.ts";
import type { RecordEvent } from "../../src/kube/event/events.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import type { ApplyOutcome } from "./apply/run.ts";
import type { MoveTracker } from "./move-tracker.ts";
import type { PathStep } from "./owned/steps.ts";
import type { Watches } from "./watches/watches.ts";

export interface ControllerPorts {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Log;
  readonly watches: Watches;
  readonly record: RecordEvent;
  /** Performs steps of services. A dry run prints them. */
  readonly apply: (steps: readonly PathStep[]) => Promise<ApplyOutcome>;
  readonly moving: MoveTracker;
  /** Undefined: machines are not scored. */
  readonly fitness: Fitness | undefined;
  /** True if nothing runs in pods. */
  readonly hostsOnly: boolean;
  /** Weights of the score of machines. */
  readonly scoreWeights: ScoreWeights;
}
