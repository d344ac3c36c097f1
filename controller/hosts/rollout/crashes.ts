/** Counts the crashes of a replica since it was last steadily Ready. Pure. */

import {
  type InferenceReplica,
  RESTARTS_RESET_AFTER_MS,
  type ReplicaTransition,
} from "../../../src/api/inference-replica.ts";

/**
 * `status.restarts` only grows. `forgiven` is its value when this controller last saw the replica steadily Ready. For the time
 * before the controller's start, the agent's transitions are used. Without transitions, all restarts count.
 */
export function crashesInARow({ status }: InferenceReplica, forgiven: number): number {
  const counted = Math.max(0, (status?.restarts ?? 0) - forgiven);
  return Math.min(counted, endsSinceSteady(status?.transitions ?? []));
}

/** All times are from the agent's clock. Infinite if no transition shows the replica steadily Ready. */
function endsSinceSteady(transitions: readonly ReplicaTransition[]): number {
  const steady = transitions.findLastIndex(({ phase, at }, index) => {
    const next = transitions[index + 1];
    return (
      phase === "Ready" &&
      next !== undefined &&
      Date.parse(next.at) - Date.parse(at) >= RESTARTS_RESET_AFTER_MS
    );
  });
  if (steady === -1) return Number.POSITIVE_INFINITY;
  // One crash may give two transitions: the first reports that leftover processes are killed, the second the reason.
  const ends = transitions.filter(
    ({ phase }, index) =>
      index > steady && phase === "Backoff" && transitions[index - 1]?.phase !== "Backoff",
  );
  return ends.length;
}
