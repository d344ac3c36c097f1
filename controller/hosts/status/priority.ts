/** Effective priority of a service: its spec's, or the class that it has earned in the queue. Pure. */
import { type Condition, getCondition } from "../../../src/api/conditions.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { agedPriority, EARNED_MS, PRIORITIES } from "../../../src/capacity/placement/priority.ts";

/** Rises while a replica of the service is queued, and stays for an hour once the replica is placed. */
export function effectivePriority(
  { spec, status }: InferenceService,
  conditions: readonly Condition[],
  isLacking: boolean,
  nowMs: number,
): number {
  const own = PRIORITIES[spec.priority];
  const placed = getCondition(conditions, "Placed");
  if (placed === undefined || placed.status === "Unknown") return own;
  const sinceMs = nowMs - Date.parse(placed.lastTransitionTime);
  if (placed.status === "False") return isLacking ? agedPriority(own, sinceMs) : own;
  const reached = status?.effectivePriority ?? own;
  const isEarned = reached > own && reached <= PRIORITIES.high && sinceMs < EARNED_MS;
  return isEarned ? reached : own;
}

/** Remaining time of an earned class; undefined if there is none. */
export function earnedClassLeftMs({ spec, status }: InferenceService, nowMs: number): number | undefined {
  const placed = getCondition(status?.conditions, "Placed");
  if (placed?.status !== "True" || (status?.effectivePriority ?? 0) <= PRIORITIES[spec.priority])
    return undefined;
  return Math.max(1_000, Date.parse(placed.lastTransitionTime) + EARNED_MS - nowMs);
}
