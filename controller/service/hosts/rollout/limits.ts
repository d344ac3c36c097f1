/** maxSurge and maxUnavailable of a service as whole replicas. Pure. */
import type { InferenceServiceSpec } from "../../../../src/api/inference-service/index.ts";

type Asked = Pick<InferenceServiceSpec["rollout"], "maxSurge" | "maxUnavailable">;

export interface RolloutLimits {
  readonly maxSurge: number;
  readonly maxUnavailable: number;
}

/** As for a Deployment: maxSurge rounds up, maxUnavailable down; if both come to 0, one may be unavailable. Absent: 1. */
export function rolloutLimits(asked: Asked, want: number): RolloutLimits {
  const maxSurge = Math.ceil(replicasOf(asked.maxSurge ?? 1, want));
  const maxUnavailable = Math.floor(replicasOf(asked.maxUnavailable ?? 1, want));
  return { maxSurge, maxUnavailable: maxSurge + maxUnavailable === 0 ? 1 : maxUnavailable };
}

/** Multiplied before it is divided: otherwise some percentages round to a little more than a whole number. */
function replicasOf(limit: number | string, want: number): number {
  return typeof limit === "number" ? limit : (Number.parseInt(limit, 10) * want) / 100;
}
