/** Converts maxSurge and maxUnavailable of a service to numbers of replicas. Pure. */
import type { InferenceServiceSpec } from "../../../src/api/inference-service/index.ts";

type LimitsSpec = Pick<InferenceServiceSpec["rollout"], "maxSurge" | "maxUnavailable">;

export interface RolloutLimits {
  readonly maxSurge: number;
  readonly maxUnavailable: number;
}

/** As for a Deployment, maxSurge rounds up and maxUnavailable down. If both are 0, one replica may be unavailable. The default is 1. */
export function rolloutLimits(spec: LimitsSpec, desired: number): RolloutLimits {
  const maxSurge = Math.ceil(replicasOf(spec.maxSurge ?? 1, desired));
  const maxUnavailable = Math.floor(replicasOf(spec.maxUnavailable ?? 1, desired));
  return { maxSurge, maxUnavailable: maxSurge + maxUnavailable === 0 ? 1 : maxUnavailable };
}

/** Multiplies before it divides, because some percentages would otherwise give slightly more than a whole number. */
function replicasOf(limit: number | string, desired: number): number {
  return typeof limit === "number" ? limit : (Number.parseInt(limit, 10) * desired) / 100;
}
