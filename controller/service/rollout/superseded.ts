/** What of a slot is not needed any more, whatever placement says. Pure. */
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { heldSlot, holdsSlot, isReady } from "./slots.ts";
import type { Removal, RolloutInput, Slot } from "./types.ts";

/** One replica is kept for serving, and of the target at most one that is on its way besides. */
export function superseded(slot: Slot, input: RolloutInput): Removal[] {
  const { current, old } = slot;
  const kept = heldSlot(slot);
  if (kept !== undefined) return [...superseded(kept, input), ...heldBack(current, input)];
  const keeper = keeperOf(slot, input);
  if (keeper === undefined) return [...replacedOld(slot, input), ...heldBack(current, input)];
  const isFinal =
    current.includes(keeper) && !isMoving(keeper, input) && !input.unsettled.has(nameOf(keeper));
  const because = `${nameOf(keeper)} serves in its place`;
  const rest = (isFinal ? [...current, ...old] : old).filter((replica) => replica !== keeper);
  const removals = rest.map((replica) => ({ replica, because }));
  if (isFinal) return removals;
  const onWay = current.filter((replica) => replica !== keeper);
  return [...removals, ...heldBack(onWay, input)];
}

/** Nothing serves: what is old makes way for what is new, unless the new one fails or the old one will be back. */
function replacedOld({ current, old, target }: Slot, input: RolloutInput): Removal[] {
  if (current.every((replica) => input.failing.has(nameOf(replica)))) return [];
  const because = `revision ${target} takes its place`;
  return old.filter((replica) => !holdsSlot(replica, input)).map((replica) => ({ replica, because }));
}

/** Of those on their way: what its host holds back goes once another gets on, and before a third is there. */
function heldBack(replicas: readonly InferenceReplica[], input: RolloutInput): Removal[] {
  const onWay = [...replicas].sort(byAge);
  const isHeldBack = (one: InferenceReplica) => isMoving(one, input) || input.displaced.has(nameOf(one));
  // Of two that were made in one second the one that gets on counts as the newer.
  const free = onWay.findLast((one) => !isHeldBack(one));
  const newest = free ?? onWay.at(-1);
  if (newest === undefined) return [];
  return onWay
    .filter((one) => one !== newest && (onWay.length > 2 || (free !== undefined && isMoving(one, input))))
    .map((replica) => ({ replica, because: `${nameOf(newest)} takes its place` }));
}

/** Who serves the slot best: of the target before others, where it may stay before where it may not. */
function keeperOf({ current, old }: Slot, input: RolloutInput): InferenceReplica | undefined {
  const rank = (replica: InferenceReplica) => {
    const isOld = old.includes(replica) ? 4 : 0;
    const isOnDrained = isMoving(replica, input) ? 2 : 0;
    // One that crashed a moment ago serves worse than an old one, and better than none.
    const isUnsettled = input.unsettled.has(nameOf(replica)) ? 8 : 0;
    return isOld + isOnDrained + isUnsettled;
  };
  const [best] = [...current, ...old].filter(isReady).sort((a, b) => rank(a) - rank(b) || byAge(a, b));
  return best;
}

function isMoving({ spec }: InferenceReplica, { draining }: RolloutInput): boolean {
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
