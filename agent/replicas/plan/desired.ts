/** From the InferenceReplica as the API server shows it to what the planner needs of it. */
import { FINALIZER_ENGINE } from "../../../src/api/group.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { Desired } from "./observed.ts";

/** Both clocks read at one moment, to place a timestamp of the API on the monotonic clock. */
export interface Moment {
  readonly wallMs: number;
  readonly monotonicMs: number;
}

/** The planner's view of a replica; `drainBy` is the deadline of its drain on the monotonic clock. */
export function desiredOf({ metadata, spec }: InferenceReplica, drainBy: number | undefined): Desired {
  const startMs = spec.probes.startSeconds === undefined ? undefined : spec.probes.startSeconds * 1_000;
  return {
    revision: spec.template.revision,
    runtime: spec.template.runtime,
    claimBytes: spec.memory.claimBytes,
    weightsBytes: spec.memory.weightsBytes,
    drainSeconds: spec.drainSeconds,
    isDeleting: metadata.deletionTimestamp !== undefined,
    hasFinalizer: metadata.finalizers?.includes(FINALIZER_ENGINE) ?? false,
    drain:
      spec.drain === undefined
        ? undefined
        : {
            reason: spec.drain.reason,
            deadlineAt: drainBy,
          },
    probes: { failures: spec.probes.failureThreshold, startMs },
  };
}
