/** Finds replicas that cannot leave a draining host, with the reason. Pure. */
import { isBeingDeleted } from "../../../../src/api/metadata.ts";
import { keyOf } from "../../../../src/api/names.ts";
import type { Unplaced } from "../../../../src/capacity/placement/types.ts";
import type { ServiceDraft } from "../plan/plan.ts";
import { ordinalOf, revisionOfReplica } from "./slots.ts";

/** Reasons by `namespace/name` of the replica, without replicas that will move or whose successor is starting. */
export function blockedReplicas(
  { observed, input, resolution, rollout }: ServiceDraft,
  unplaced: readonly Unplaced[],
): ReadonlyMap<string, string> {
  const blocked = new Map<string, string>();
  for (const replica of observed.replicas) {
    const ordinal = ordinalOf(replica);
    // Replicas that live eviction moves may stay, so they do not count.
    const isDrained = observed.hosts.get(replica.spec.template.hostName)?.spec.drain === true;
    if (!isDrained || isBeingDeleted(replica) || ordinal >= input.desired) continue;
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
