/** How often a replica has crashed in a row: what was before it last served for long does not count. Pure. */
import type { InferenceReplica, ReplicaTransition } from "../../../src/api/inference-replica.ts";
import { defaultTimings } from "../../../src/replica/timings.ts";

/** So long Ready, and earlier crashes are over: its agent's next pause begins at the shortest again too. */
export const STEADY_MS = defaultTimings.backoffResetMs;

/**
 * `status.restarts` only grows, over months too. `forgiven` are those that this controller knows to be over; of what was
 * before its start the agent's transitions tell. An agent that tells of none is taken at its whole count.
 */
export function crashesInARow({ status }: InferenceReplica, forgiven: number): number {
  const counted = Math.max(0, (status?.restarts ?? 0) - forgiven);
  return Math.min(counted, endsSinceSteady(status?.transitions ?? []));
}

/** Both times are of the agent's clock. Infinite where no time of serving long enough is told. */
function endsSinceSteady(transitions: readonly ReplicaTransition[]): number {
  const steady = transitions.findLastIndex(({ phase, at }, index) => {
    const next = transitions[index + 1];
    return phase === "Ready" && next !== undefined && Date.parse(next.at) - Date.parse(at) >= STEADY_MS;
  });
  if (steady === -1) return Number.POSITIVE_INFINITY;
  // One crash may tell of two reasons: first that leftovers are ended, then why.
  const ends = transitions.filter(
    ({ phase }, index) =>
      index > steady && phase === "Backoff" && transitions[index - 1]?.phase !== "Backoff",
  );
  return ends.length;
}
