/** maxSurge and maxUnavailable of a service as whole replicas. Pure. */
import type { InferenceServiceSpec } from "../../../../src/api/inference-service/index.ts";

type Asked = Pick<InferenceServiceSpec["rollout"], "maxSurge" | "maxUnavailable">;

export interface RolloutLimits {
  readonly maxSurge: number;
  readonly maxUnavailable: number;
}

/**
 * As for a Deployment: surge is rounded up, unavailable down, and where neither leaves a step to take one may
 * be missing.
 */
export function rolloutLimits(asked: Asked, want: number): RolloutLimits {
  const maxSurge = Math.ceil(replicasOf(asked.maxSurge, want));
  const maxUnavailable = Math.floor(replicasOf(asked.maxUnavailable, want));
  return { maxSurge, maxUnavailable: maxSurge + maxUnavailable === 0 ? 1 : maxUnavailable };
}

/** Multiplied first: a division before would make a little more than a whole number of some. */
function replicasOf(limit: number | string, want: number): number {
  return typeof limit === "number" ? limit : (Number.parseInt(limit, 10) * want) / 100;
}
