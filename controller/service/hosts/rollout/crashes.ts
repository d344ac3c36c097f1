/** Crashes of a replica in a row: since it was last Ready for long. Pure. */

import type { InferenceReplica, ReplicaTransition } from "../../../../src/api/inference-replica.ts";
import { RESTARTS_RESET_AFTER_MS } from "../../../../src/api/inference-replica.ts";

/**
 * `status.restarts` only grows. `forgiven` are the restarts before this controller saw the replica Ready for
 * long; for the time before its own start it reads the agent's transitions. Without any, all restarts count.
 */
export function crashesInARow({ status }: InferenceReplica, forgiven: number): number {
  const counted = Math.max(0, (status?.restarts ?? 0) - forgiven);
  return Math.min(counted, endsSinceSteady(status?.transitions ?? []));
}

/** Both times are from the agent's clock. Infinite if no transition shows it Ready for long enough. */
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
  // One crash may be two transitions: first that leftover processes are killed, then the reason.
  const ends = transitions.filter(
    ({ phase }, index) =>
      index > steady && phase === "Backoff" && transitions[index - 1]?.phase !== "Backoff",
  );
  return ends.length;
}
