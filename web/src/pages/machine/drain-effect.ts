/** What a drain of a host does, in numbers. Pure. */
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";

export interface DrainEffect {
  readonly replicas: number;
  readonly ready: number;
  /** Longest drain of a Ready replica. */
  readonly maxSeconds: number;
  readonly requests: number;
}

export function drainEffect(replicas: readonly Pick<InferenceReplica, "spec" | "status">[]): DrainEffect {
  const ready = replicas.filter(({ status }) => status?.phase === "Ready");
  const requests = ready.reduce((sum, { status }) => sum + (status?.performance?.requestsInFlight ?? 0), 0);
  return {
    replicas: replicas.length,
    ready: ready.length,
    maxSeconds: Math.max(0, ...ready.map(({ spec }) => spec.drainSeconds)),
    requests: Math.round(requests),
  };
}
