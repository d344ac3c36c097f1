/** Replicas that their slot no longer needs, whatever placement decides. Pure. */
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import { heldSlot, holdsSlot, isServingReplica } from "./slots.ts";
import type { HostsRolloutInput, ReplicaRemoval, RolloutSlot } from "./types.ts";

/** Keeps one serving replica, and at most one of the target that is not Ready yet. */
export function planSuperseded(slot: RolloutSlot, input: HostsRolloutInput): ReplicaRemoval[] {
  const { current, old } = slot;
  const kept = heldSlot(slot);
  if (kept !== undefined) return [...planSuperseded(kept, input), ...heldBack(current, input)];
  const serving = bestServing(slot, input);
  if (serving === undefined) return [...replacedOld(slot, input), ...heldBack(current, input)];
  const isFinal =
    current.includes(serving) && !isMoving(serving, input) && !input.unsettled.has(nameOf(serving));
  const because = `replaced by ${nameOf(serving)}, which is Ready`;
  const rest = (isFinal ? [...current, ...old] : old).filter((replica) => replica !== serving);
  const removals = rest.map((replica) => ({ replica, because }));
  if (isFinal) return removals;
  const onWay = current.filter((replica) => replica !== serving);
  return [...removals, ...heldBack(onWay, input)];
}

/**
 * Nothing serves: old replicas are replaced by new ones, unless the new one fails or the old one will be
 * back.
 */
function replacedOld({ current, old, target }: RolloutSlot, input: HostsRolloutInput): ReplicaRemoval[] {
  if (current.every((replica) => input.failing.has(nameOf(replica)))) return [];
  const because = `replaced by revision ${target}`;
  return old.filter((replica) => !holdsSlot(replica, input)).map((replica) => ({ replica, because }));
}

/**
 * Of replicas that are not Ready yet: one whose host drains or cannot run it is removed once another makes
 * progress, or before there is a third.
 */
function heldBack(replicas: readonly InferenceReplica[], input: HostsRolloutInput): ReplicaRemoval[] {
  const onWay = [...replicas].sort(byAge);
  const isHeldBack = (one: InferenceReplica) => isMoving(one, input) || input.displaced.has(nameOf(one));
  // Of two created within one second, the one that progresses counts as the newer.
  const free = onWay.findLast((one) => !isHeldBack(one));
  const newest = free ?? onWay.at(-1);
  if (newest === undefined) return [];
  return onWay
    .filter((one) => one !== newest && (onWay.length > 2 || (free !== undefined && isMoving(one, input))))
    .map((replica) => ({ replica, because: `replaced by ${nameOf(newest)}` }));
}

/** The replica that serves the slot best: the target revision first, then hosts that are not draining. */
function bestServing({ current, old }: RolloutSlot, input: HostsRolloutInput): InferenceReplica | undefined {
  const rank = (replica: InferenceReplica) => {
    const isOld = old.includes(replica) ? 4 : 0;
    const isOnDrained = isMoving(replica, input) ? 2 : 0;
    // A replica that has just crashed ranks below an old one, and above none.
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
