/** How often a replica has crashed in a row: crashes before it last served for long do not count. Pure. */

import type { InferenceReplica, ReplicaTransition } from "../../../../src/api/inference-replica.ts";
import { RESTARTS_RESET_AFTER_MS } from "../../../../src/api/inference-replica.ts";

/**
 * `status.restarts` only grows, even over months. `forgiven` are the restarts before this controller saw the
 * replica serve for long; the agent's transitions cover the time before its start. Without transitions the
 * whole count is taken.
 */
export function crashesInARow({ status }: InferenceReplica, forgiven: number): number {
  const counted = Math.max(0, (status?.restarts ?? 0) - forgiven);
  return Math.min(counted, endsSinceSteady(status?.transitions ?? []));
}

/** Both times are from the agent's clock. Infinite where no transition shows it serving long enough. */
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
  // One crash may tell of two reasons: first that leftovers are ended, then why.
  const ends = transitions.filter(
    ({ phase }, index) =>
      index > steady && phase === "Backoff" && transitions[index - 1]?.phase !== "Backoff",
  );
  return ends.length;
}
