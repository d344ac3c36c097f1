/** Why replicas stay on hosts that are being drained. Pure. */
import { keyOf } from "../../../../src/api/names.ts";
import type { Unplaced } from "../../../../src/capacity/placement/types.ts";
import type { ServiceDraft } from "../plan/plan.ts";
import { isBeingDeleted, ordinalOf, revisionOfReplica } from "./slots.ts";

/** By `namespace/name` of the replica; without those that will move or whose successor is starting. */
export function blockedReplicas(
  { observed, input, resolution, rollout }: ServiceDraft,
  unplaced: readonly Unplaced[],
): ReadonlyMap<string, string> {
  const blocked = new Map<string, string>();
  for (const replica of observed.replicas) {
    const ordinal = ordinalOf(replica);
    // Not those that live eviction moves: they may stay.
    const isDrained = observed.hosts.get(replica.spec.template.hostName)?.spec.drain === true;
    if (!isDrained || isBeingDeleted(replica) || ordinal >= input.want) continue;
    const key = keyOf(replica.metadata);
    const miss = unplaced.find((one) => one.ordinal === ordinal);
    if (miss !== undefined) blocked.set(key, miss.message);
    else if (resolution.at === "blocked") blocked.set(key, resolution.message);
    else if (rollout.state.stoppedBy !== undefined && !input.known.has(revisionOfReplica(replica))) {
      blocked.set(
        key,
        `its revision is no longer in the history, and the rollout of its service is stopped: ${rollout.state.stoppedBy}`,
      );
    }
  }
  return blocked;
}
