/** From the InferenceReplica as the API server shows it to what the planner needs of it. */
import { FINALIZER_ENGINE } from "../api/group.ts";
import type { InferenceReplica } from "../api/inference-replica.ts";
import type { Desired } from "./observed.ts";

/** Both clocks read at one moment, to place a timestamp of the API on the monotonic clock. */
export interface Moment {
  readonly wallMs: number;
  readonly monotonicMs: number;
}

/** The planner's view of a replica. */
export function desiredOf(replica: InferenceReplica, moment: Moment): Desired {
  const { metadata, spec } = replica;
  const deadline = spec.drain?.deadline;
  const deadlineAt =
    deadline === undefined ? undefined : Date.parse(deadline) - moment.wallMs + moment.monotonicMs;
  const startMs = spec.probes.startSeconds === undefined ? undefined : spec.probes.startSeconds * 1_000;
  return {
    revision: spec.template.revision,
    runtime: spec.template.runtime,
    claimBytes: spec.memory.claimBytes,
    weightsBytes: spec.memory.weightsBytes,
    drainSeconds: spec.drainSeconds,
    isDeleting: metadata.deletionTimestamp !== undefined,
    hasFinalizer: metadata.finalizers?.includes(FINALIZER_ENGINE) ?? false,
    ...(spec.drain === undefined
      ? {}
      : {
          drain: {
            reason: spec.drain.reason,
            ...(deadlineAt === undefined || Number.isNaN(deadlineAt) ? {} : { deadlineAt }),
          },
        }),
    probes: { failures: spec.probes.failureThreshold, ...(startMs === undefined ? {} : { startMs }) },
  };
}
