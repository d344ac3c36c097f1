/**
 * Plans rollouts: which slots need a host, and which replicas to remove. Pure; placement runs between
 * `planRollout` and `planSacrifices`. At most maxUnavailable slots stop serving for a rollout.
 */
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import {
  heldSlot,
  holdsSlot,
  isBeingDeleted,
  isServingReplica,
  isUnproven,
  ordinalOf,
  revisionOfReplica,
  rolloutSlots,
} from "./slots.ts";
import { planSuperseded } from "./superseded.ts";
import type {
  DesiredSlot,
  HostsRolloutInput,
  ReplicaRemoval,
  RolloutPlan,
  RolloutSlot,
  RolloutState,
  WantReason,
} from "./types.ts";

/** Before placement: removals that need none, and the slots that need a host. */
export function planHostsRollout(input: HostsRolloutInput): RolloutPlan {
  const removals: ReplicaRemoval[] = beyond(input).map((replica) => ({
    replica,
    because: `scaled down to ${input.want}`,
  }));
  const { revision } = input;
  if (revision === undefined) return { wanted: [], removals, slots: [], state: NOTHING };
  const state = rolloutState(input, revision);
  const isStopped = state.stoppedBy !== undefined;
  const slots: RolloutSlot[] = [];
  for (const slot of rolloutSlots(input, revision, isStopped)) {
    const gone = planSuperseded(slot, input);
    removals.push(...gone);
    slots.push(without(slot, gone));
  }
  const changing = slots.filter(({ target, current, old }) => {
    const isNext = target === revision && current.length === 0 && old.length > 0;
    return !(isStopped && isNext);
  });
  return { wanted: wantedOf(changing, surplusOf(slots), input), removals, slots, state };
}

/** Would the slot's new replica find a host once these were gone? */
export type FitsWithout = (ordinal: number, without: readonly InferenceReplica[]) => boolean;

/**
 * After placement: where no host has room for old and new, the old replica is removed first, within
 * maxUnavailable, and only if the new one then fits. `unplaced`: ordinals without a host.
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
    if (old.length === 0 || !isStuck || hasNewOnWay(slot, input, unplaced)) continue;
    const others = serves ? unavailable : unavailable - 1;
    const isHeld = old.some((one) => holdsSlot(one, input));
    if ((isHeld && others >= input.maxUnavailable) || !fits(ordinal, old)) continue;
    if (serves) unavailable += 1;
    const because = `frees memory for revision ${target}`;
    removals.push(...old.map((replica) => ({ replica, because })));
  }
  return removals;
}

/** Does not count a new replica that its host cannot run and that has room on no other. */
function hasNewOnWay(
  { ordinal, current }: RolloutSlot,
  input: HostsRolloutInput,
  unplaced: ReadonlySet<number>,
): boolean {
  return (
    current.length > 0 &&
    !(unplaced.has(ordinal) && current.every(({ metadata }) => input.displaced.has(metadata.name)))
  );
}

const NOTHING: RolloutState = { updated: 0, updatedReady: 0, old: 0, oldReady: 0 };

function rolloutState(input: HostsRolloutInput, revision: string): RolloutState {
  const wanted = input.replicas.filter((one) => !isBeingDeleted(one) && ordinalOf(one) < input.want);
  const fresh = wanted.filter((one) => revisionOfReplica(one) === revision);
  const old = wanted.filter((one) => revisionOfReplica(one) !== revision);
  const state: RolloutState = {
    updated: new Set(fresh.map(ordinalOf)).size,
    updatedReady: new Set(fresh.filter(isServingReplica).map(ordinalOf)).size,
    old: old.length,
    oldReady: old.filter(isServingReplica).length,
  };
  const isChange = old.length > 0 || (input.fallback !== undefined && input.fallback !== revision);
  const stoppedBy = fresh.map((one) => doubtAbout(one, input)).find((why) => why !== undefined);
  return isChange && stoppedBy !== undefined ? { ...state, stoppedBy } : state;
}

function doubtAbout(replica: InferenceReplica, input: HostsRolloutInput): string | undefined {
  const { name } = replica.metadata;
  if (!isUnproven(replica, input)) return undefined;
  return input.failing.get(name) ?? `${name} crashed recently and has not been Ready for a minute yet`;
}

/** Highest ordinals first. */
function beyond({ want, replicas }: HostsRolloutInput): InferenceReplica[] {
  return replicas
    .filter((replica) => !isBeingDeleted(replica) && ordinalOf(replica) >= want)
    .sort((a, b) => ordinalOf(b) - ordinalOf(a));
}

function without(slot: RolloutSlot, gone: readonly ReplicaRemoval[]): RolloutSlot {
  const names = new Set(gone.map(({ replica }) => replica.metadata.name));
  const isKept = ({ metadata }: InferenceReplica) => !names.has(metadata.name);
  return { ...slot, current: slot.current.filter(isKept), old: slot.old.filter(isKept) };
}

/** Replicas beyond one for each slot. */
function surplusOf(slots: readonly RolloutSlot[]): number {
  return slots.reduce((sum, { current, old }) => sum + Math.max(0, current.length + old.length - 1), 0);
}

function wantedOf(
  slots: readonly RolloutSlot[],
  surplusNow: number,
  input: HostsRolloutInput,
): DesiredSlot[] {
  const wanted: DesiredSlot[] = [];
  const failing = slots.reduce(
    (sum, { held, current }) => sum + (held === undefined ? 0 : current.length),
    0,
  );
  let surplus = surplusNow;
  for (const slot of slots) {
    const isExtra = slot.current.length + slot.old.length > 0;
    const want = wantsOf(slot, input).find((one) => !isExtra || surplus < surgeFor(one, input, failing));
    if (want === undefined) continue;
    if (isExtra && want.why !== "replace") surplus += 1;
    wanted.push(want);
  }
  return wanted;
}

/**
 * A drain may exceed maxSurge 0 by one, and failing replicas do not use up its surge. A replica that its host
 * cannot run holds no memory there, so its replacement is no surge.
 */
function surgeFor(
  { why, revision }: DesiredSlot,
  { maxSurge, ...input }: HostsRolloutInput,
  failing: number,
): number {
  if (why === "replace") return Number.POSITIVE_INFINITY;
  if (why !== "move") return maxSurge;
  // A failing replica is not serving: it needs no more memory on another host than it frees here.
  if (failing > 0 && revision === input.revision) return Number.POSITIVE_INFINITY;
  return Math.max(1, maxSurge) + failing;
}

/**
 * One replica per slot and pass. The old revision beside a failing one comes first, unless it has to be recreated: that
 * comes last, so that it delays neither a drain nor a retry on another host.
 */
function wantsOf(slot: RolloutSlot, input: HostsRolloutInput): readonly DesiredSlot[] {
  const own = wantOf(slot, input, "fill");
  const kept = heldSlot(slot);
  const held = kept && wantOf(kept, input, "refill");
  const wants = own !== undefined && held?.why === "refill" ? [own, held] : [held, own];
  return wants.filter((want) => want !== undefined);
}

function wantOf(slot: RolloutSlot, input: HostsRolloutInput, whenEmpty: WantReason): DesiredSlot | undefined {
  const why = whyOf(slot, input, whenEmpty);
  return why === undefined ? undefined : { ordinal: slot.ordinal, revision: slot.target, why };
}

function whyOf(
  { current, old }: RolloutSlot,
  input: HostsRolloutInput,
  whenEmpty: WantReason,
): WantReason | undefined {
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
