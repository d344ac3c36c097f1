/** Plans the removal of replicas that their slot no longer needs, independent of placement. Pure. */
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import { holdsSlot, isServingReplica, retainedSlot } from "./slots.ts";
import type { HostsRolloutInput, ReplicaRemoval, RolloutSlot } from "./types.ts";

/** Keeps one serving replica, and at most one replica of the target that is not Ready yet. */
export function planSuperseded(slot: RolloutSlot, input: HostsRolloutInput): ReplicaRemoval[] {
  const { current, old } = slot;
  const retained = retainedSlot(slot);
  if (retained !== undefined)
    return [...planSuperseded(retained, input), ...removalsOfStarting(current, input)];
  const serving = bestServing(slot, input);
  if (serving === undefined) return [...replacedOld(slot, input), ...removalsOfStarting(current, input)];
  const isFinal =
    current.includes(serving) && !isMoving(serving, input) && !input.unsettled.has(nameOf(serving));
  const because = `replaced by ${nameOf(serving)}, which is Ready`;
  const others = (isFinal ? [...current, ...old] : old).filter((replica) => replica !== serving);
  const removals = others.map((replica) => ({ replica, because }));
  if (isFinal) return removals;
  const starting = current.filter((replica) => replica !== serving);
  return [...removals, ...removalsOfStarting(starting, input)];
}

/** For a slot that nothing serves: old replicas are removed, unless the new one fails or the old one is only briefly down. */
function replacedOld({ current, old, target }: RolloutSlot, input: HostsRolloutInput): ReplicaRemoval[] {
  if (current.every((replica) => input.failing.has(nameOf(replica)))) return [];
  const because = `replaced by revision ${target}`;
  return old.filter((replica) => !holdsSlot(replica, input)).map((replica) => ({ replica, because }));
}

/**
 * Removes superfluous replicas that are not Ready yet. A replica whose host drains or cannot run it is removed once another one
 * makes progress, or before there is a third.
 */
function removalsOfStarting(
  replicas: readonly InferenceReplica[],
  input: HostsRolloutInput,
): ReplicaRemoval[] {
  const starting = replicas.toSorted(byAge);
  const isBlocked = (one: InferenceReplica) => isMoving(one, input) || input.displaced.has(nameOf(one));
  // Creation times are whole seconds, so the replica that makes progress counts as the newest.
  const free = starting.findLast((one) => !isBlocked(one));
  const newest = free ?? starting.at(-1);
  if (newest === undefined) return [];
  return starting
    .filter((one) => one !== newest && (starting.length > 2 || (free !== undefined && isMoving(one, input))))
    .map((replica) => ({ replica, because: `replaced by ${nameOf(newest)}` }));
}

/** The serving replica to keep: the target revision first, then hosts that are not draining. */
function bestServing({ current, old }: RolloutSlot, input: HostsRolloutInput): InferenceReplica | undefined {
  const rank = (replica: InferenceReplica) => {
    const isOld = old.includes(replica) ? 4 : 0;
    const isOnDrained = isMoving(replica, input) ? 2 : 0;
    // A replica that has recently crashed ranks below an old one, but is better than none.
    const isUnsettled = input.unsettled.has(nameOf(replica)) ? 8 : 0;
    return isOld + isOnDrained + isUnsettled;
  };
  const [best] = [...current, ...old]
    .filter(isServingReplica)
    .sort((a, b) => rank(a) - rank(b) || byAge(a, b));
  return best;
}

function isMoving({ spec }: InferenceReplica, { draining }: HostsRolloutInput): boolean {
  return draining.has(spec.template.hostName);
}

function nameOf({ metadata }: InferenceReplica): string {
  return metadata.name;
}

/** Oldest first. */
function byAge(a: InferenceReplica, b: InferenceReplica): number {
  const [one = "", other = ""] = [a.metadata.creationTimestamp, b.metadata.creationTimestamp];
  if (one !== other) return one < other ? -1 : 1;
  return nameOf(a) < nameOf(b) ? -1 : 1;
}
