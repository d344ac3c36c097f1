/** Runs the pod of a probe: for nodes without a report, for `cluster-fit`, and for `doctor --from-cluster`. */

import { PODS } from "../../src/kube/kinds.ts";
import type { ApiResult, KubeClient } from "../../src/kube/types.ts";
import { waitMs } from "../../src/kube/wait.ts";
import type { Pod } from "../../src/kube/workload-objects.ts";
import type { Clock } from "../../src/util/ports.ts";
import {
  type ProbeEnd,
  type ProbeFailure,
  type ProbeOutcome,
  probeFailed,
  readProbePod,
} from "./workload/one-shot-pod.ts";

const POLL_MS = 500;

export interface ProbePorts {
  readonly client: Pick<KubeClient, "create" | "get">;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

export interface ProbeLimits {
  readonly limitMs: number;
  /** Ends the wait for a pod that its node will not run. */
  readonly nodeFailure?: () => Promise<ProbeFailure | undefined>;
}

/** Adopts a pod of the same name. The error is that of a refused creation. Resolves to undefined once `signal` is aborted. The caller deletes the pod. */
export async function runProbe(
  { client, clock, signal }: ProbePorts,
  pod: Pod,
  { limitMs, nodeFailure }: ProbeLimits,
): Promise<ApiResult<ProbeEnd | undefined>> {
  const { name, namespace } = pod.metadata;
  const lateMs = clock.monotonicMs() + limitMs;
  const done = (value: ProbeEnd | undefined) => ({ ok: true, value }) as const;
  const made = await client.create(PODS, pod);
  if (!made.ok && made.error.kind !== "alreadyExists") return made;
  for (let why = "the pod has not started"; !signal.aborted; await waitMs(clock, POLL_MS, signal)) {
    const outcome = outcomeOf(await client.get(PODS, { name, namespace }), why);
    if (outcome.at !== "waiting") return done(outcome);
    why = outcome.why;
    const failure = await nodeFailure?.();
    if (failure !== undefined) return done(failure);
    if (clock.monotonicMs() >= lateMs) return done(probeFailed("DeadlineExceeded", why, "Timeout"));
  }
  return done(undefined);
}

function outcomeOf(found: ApiResult<Pod>, why: string): ProbeOutcome {
  if (found.ok) return readProbePod(found.value);
  const { kind, reason, message } = found.error;
  if (kind === "notFound") return probeFailed("PodDeleted", "the pod was deleted before it reported");
  // A retry does not grant a right.
  return kind === "forbidden" ? probeFailed(reason, message) : { at: "waiting", why };
}
