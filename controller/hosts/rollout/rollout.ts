/**
 * Plans rollouts: which slots need a host, and which replicas to remove. Placement runs between `planHostsRollout` and
 * `planRemovalsFirst`. At most maxUnavailable slots stop serving for a rollout. Pure.
 */

import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import type { ReplicaRemoval } from "../../frame/apply/run.ts";
import {
  holdsSlot,
  isServingReplica,
  isUnproven,
  ordinalOf,
  retainedSlot,
  revisionOfReplica,
  rolloutSlots,
} from "./slots.ts";
import type {
  DesiredSlot,
  HostsRolloutInput,
  RolloutPlan,
  RolloutSlot,
  RolloutState,
  SlotReason,
} from "./types.ts";

/** Runs before placement: plans the removals that do not depend on it, and the slots that need a host. */
export function planHostsRollout(input: HostsRolloutInput): RolloutPlan {
  const removals: ReplicaRemoval[] = surplusReplicas(input).map((replica) => ({
    replica,
    because: `scaled down to ${input.desired}`,
  }));
  const { revision } = input;
  if (revision === undefined) return { desiredSlots: [], removals, slots: [], state: NO_REVISION };
  const state = rolloutState(input, revision);
  const isStopped = state.stoppedBy !== undefined;
  const slots: RolloutSlot[] = [];
  for (const slot of rolloutSlots(input, revision, isStopped)) {
    const superseded = planSuperseded(slot, input);
    removals.push(...superseded);
    slots.push(withoutRemoved(slot, superseded));
  }
  const changing = slots.filter(({ target, current, old }) => {
    const isNext = target === revision && current.length === 0 && old.length > 0;
    return !(isStopped && isNext);
  });
  return { desiredSlots: desiredSlotsOf(changing, surplusOf(slots), input), removals, slots, state };
}

/** True if the slot's new replica would find a host without these replicas. */
export type FitsWithout = (ordinal: number, without: readonly InferenceReplica[]) => boolean;

/**
 * Runs after placement: if no host has room for both, the old replica is removed first, within maxUnavailable, and only if
 * the new replica then fits. `unplaced` has the ordinals without a host.
 */
export function planRemovalsFirst(
  input: HostsRolloutInput,
  { slots, state }: RolloutPlan,
  unplaced: ReadonlySet<number>,
  fits: FitsWithout,
): ReplicaRemoval[] {
  if (state.stoppedBy !== undefined) return [];
  const hasNoSurge = surplusOf(slots) >= input.maxSurge;
  let unavailable = slots.filter(({ current, old }) => ![...current, ...old].some(isServingReplica)).length;
  const removals: ReplicaRemoval[] = [];
  for (const slot of slots) {
    const { ordinal, target, old } = slot;
    const serves = old.some(isServingReplica);
    const isStuck = unplaced.has(ordinal) || input.maxSurge === 0 || (hasNoSurge && !serves);
    if (old.length === 0 || !isStuck || hasStartingReplica(slot, input, unplaced)) continue;
    const others = serves ? unavailable : unavailable - 1;
    const isHolding = old.some((one) => holdsSlot(one, input));
    if ((isHolding && others >= input.maxUnavailable) || !fits(ordinal, old)) continue;
    if (serves) unavailable += 1;
    const because = `frees memory for revision ${target}`;
    removals.push(...old.map((replica) => ({ replica, because })));
  }
  return removals;
}

/** Ignores a new replica that its host cannot run and that fits no other host. */
function hasStartingReplica(
  { ordinal, current }: RolloutSlot,
  input: HostsRolloutInput,
  unplaced: ReadonlySet<number>,
): boolean {
  return (
    current.length > 0 &&
    !(unplaced.has(ordinal) && current.every(({ metadata }) => input.displaced.has(metadata.name)))
  );
}

const NO_REVISION: RolloutState = { updated: 0, updatedReady: 0, old: 0, oldReady: 0 };

function rolloutState(input: HostsRolloutInput, revision: string): RolloutState {
  const live = input.replicas.filter((one) => !isBeingDeleted(one) && ordinalOf(one) < input.desired);
  const fresh = live.filter((one) => revisionOfReplica(one) === revision);
  const old = live.filter((one) => revisionOfReplica(one) !== revision);
  const state: RolloutState = {
    updated: new Set(fresh.map(ordinalOf)).size,
    updatedReady: new Set(fresh.filter(isServingReplica).map(ordinalOf)).size,
    old: old.length,
    oldReady: old.filter(isServingReplica).length,
  };
  const isChange = old.length > 0 || (input.fallback !== undefined && input.fallback !== revision);
  const stoppedBy = fresh.map((one) => reasonToStop(one, input)).find((why) => why !== undefined);
  return isChange && stoppedBy !== undefined ? { ...state, stoppedBy } : state;
}

function reasonToStop(replica: InferenceReplica, input: HostsRolloutInput): string | undefined {
  const { name } = replica.metadata;
  if (!isUnproven(replica, input)) return undefined;
  return input.failing.get(name) ?? `${name} crashed recently and has not been Ready for a minute yet`;
}

/** Replicas beyond the desired number, highest ordinals first. */
function surplusReplicas({ desired, replicas }: HostsRolloutInput): InferenceReplica[] {
  return replicas
    .filter((replica) => !isBeingDeleted(replica) && ordinalOf(replica) >= desired)
    .sort((a, b) => ordinalOf(b) - ordinalOf(a));
}

function withoutRemoved(slot: RolloutSlot, removals: readonly ReplicaRemoval[]): RolloutSlot {
  const names = new Set(removals.map(({ replica }) => replica.metadata.name));
  const stays = ({ metadata }: InferenceReplica) => !names.has(metadata.name);
  return { ...slot, current: slot.current.filter(stays), old: slot.old.filter(stays) };
}

/** Number of replicas beyond one for each slot. */
function surplusOf(slots: readonly RolloutSlot[]): number {
  return slots.reduce((sum, { current, old }) => sum + Math.max(0, current.length + old.length - 1), 0);
}

function desiredSlotsOf(
  slots: readonly RolloutSlot[],
  surplusNow: number,
  input: HostsRolloutInput,
): DesiredSlot[] {
  const desired: DesiredSlot[] = [];
  const failing = slots.reduce(
    (sum, { retained, current }) => sum + (retained === undefined ? 0 : current.length),
    0,
  );
  let surplus = surplusNow;
  for (const slot of slots) {
    const isExtra = slot.current.length + slot.old.length > 0;
    const found = candidatesFor(slot, input).find(
      (one) => !isExtra || surplus < surgeFor(one, slot, input, failing),
    );
    if (found === undefined) continue;
    if (isExtra && found.why !== "replace") surplus += 1;
    desired.push(found);
  }
  return desired;
}

/**
 * Maximum surplus of replicas. A drain may exceed maxSurge 0 by one, and failing replicas do not use up its surge. A replica
 * that its host cannot run holds no memory there, so its replacement does not count as surge.
 */
function surgeFor(
  { why, revision }: DesiredSlot,
  { current }: RolloutSlot,
  { maxSurge, ...input }: HostsRolloutInput,
  failing: number,
): number {
  if (why === "replace") return Number.POSITIVE_INFINITY;
  if (why !== "move") return maxSurge;
  // A failing replica does not serve, and on another host it needs no more memory than it frees.
  const isFailing = current.length > 0 && current.every((one) => input.failing.has(nameOf(one)));
  if (isFailing && revision === input.revision) return Number.POSITIVE_INFINITY;
  return Math.max(1, maxSurge) + failing;
}

/**
 * The replicas that a slot may need, of which each pass creates one. The retained old revision comes before a failing one. If
 * it has to be recreated it comes last, so that it delays neither a drain nor a retry on another host.
 */
function candidatesFor(slot: RolloutSlot, input: HostsRolloutInput): readonly DesiredSlot[] {
  const own = desiredSlot(slot, input, "fill");
  const oldSlot = retainedSlot(slot);
  const retained = oldSlot && desiredSlot(oldSlot, input, "refill");
  const candidates = own !== undefined && retained?.why === "refill" ? [own, retained] : [retained, own];
  return candidates.filter((one) => one !== undefined);
}

function desiredSlot(
  slot: RolloutSlot,
  input: HostsRolloutInput,
  whenEmpty: SlotReason,
): DesiredSlot | undefined {
  const why = slotReason(slot, input, whenEmpty);
  return why === undefined ? undefined : { ordinal: slot.ordinal, revision: slot.target, why };
}

function slotReason(
  { current, old }: RolloutSlot,
  input: HostsRolloutInput,
  whenEmpty: SlotReason,
): SlotReason | undefined {
  const { displaced, draining } = input;
  const isMoving = (replica: InferenceReplica) => draining.has(replica.spec.template.hostName);
  if (current.length > 0) {
    if (current.some((one) => !(isMoving(one) || displaced.has(one.metadata.name)))) return undefined;
    return current.some(isMoving) ? "move" : "replace";
  }
  const holding = old.filter((one) => holdsSlot(one, input));
  if (holding.length === 0) return whenEmpty;
  return holding.some(isMoving) ? "move" : "surge";
}

/** Keeps one serving replica, and at most one replica of the target that is not Ready yet. */
function planSuperseded(slot: RolloutSlot, input: HostsRolloutInput): ReplicaRemoval[] {
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
