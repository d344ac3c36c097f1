/** The slots of a service: which replica holds which, what wants a host, what has to go. Pure; placement lies between the two steps. */
import { isConditionTrue } from "../../../src/api/conditions.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { isPreempted } from "../../placement/preempted.ts";

export interface SlotsInput {
  /** Replicas wanted; 0 for a suspended service. */
  readonly want: number;
  /** Absent when the service cannot be resolved: what runs stays, nothing is made. */
  readonly revision?: string | undefined;
  readonly replicas: readonly InferenceReplica[];
  readonly maxSurge: number;
  readonly maxUnavailable: number;
  /** Names of replicas that may be replaced elsewhere: evicted, or refused by their host for too long. */
  readonly displaced: ReadonlySet<string>;
}

export interface Wanted {
  readonly ordinal: number;
  /** fill: the slot is empty. surge: an old revision still serves it. replace: its host cannot run it. */
  readonly why: "fill" | "surge" | "replace";
}

export interface Removal {
  readonly replica: InferenceReplica;
  readonly because: string;
}

export interface SlotsPlan {
  readonly wanted: readonly Wanted[];
  readonly removals: readonly Removal[];
}

interface Slot {
  readonly ordinal: number;
  readonly current: readonly InferenceReplica[];
  readonly old: readonly InferenceReplica[];
}

/** Before placement: removals that need no placement, and the slots that want a host. */
export function planSlots(input: SlotsInput): SlotsPlan {
  const slots = slotsOf(input);
  const removals: Removal[] = [];
  for (const replica of beyond(input)) {
    removals.push({ replica, because: `scaled down to ${input.want}` });
  }
  const wanted: Wanted[] = [];
  let surging = slots.filter(({ current, old }) => current.length > 0 && old.some(isReady)).length;
  for (const slot of slots) {
    removals.push(...superseded(slot, input));
    const why = wantsHost(slot, input, surging);
    if (why === undefined) continue;
    if (why === "surge") surging += 1;
    wanted.push({ ordinal: slot.ordinal, why });
  }
  return { wanted, removals };
}

/**
 * After placement: where the new revision fits nowhere beside the old one, the old one goes first,
 * as far as maxUnavailable allows. Takes the ordinals that found no host.
 */
export function planSacrifices(input: SlotsInput, unplaced: ReadonlySet<number>): Removal[] {
  const slots = slotsOf(input);
  let unavailable = slots.filter(({ current, old }) => ![...current, ...old].some(isReady)).length;
  const removals: Removal[] = [];
  for (const { ordinal, current, old } of slots) {
    const isStuck = current.length === 0 && (unplaced.has(ordinal) || input.maxSurge === 0);
    if (!isStuck || !old.some(isReady) || unavailable >= input.maxUnavailable) continue;
    unavailable += 1;
    const because = "the new revision does not fit beside it";
    removals.push(...old.map((replica) => ({ replica, because })));
  }
  return removals;
}

/** Does it serve: Ready by its agent's word, and the agent is alive. */
export function isReady({ metadata, status }: InferenceReplica): boolean {
  return (
    metadata.deletionTimestamp === undefined &&
    status?.phase === "Ready" &&
    isConditionTrue(status.conditions, "HostReachable")
  );
}

/** The slot that a replica's name says: `<service>-<ordinal>-<hash>`. */
export function ordinalOf({ metadata }: InferenceReplica): number {
  const match = /-(\d+)-[0-9a-z]+$/.exec(metadata.name);
  return match?.[1] === undefined ? Number.POSITIVE_INFINITY : Number(match[1]);
}

/** It ends, and counts for nothing any more: deleted, or told to make way. */
export function isLeaving(replica: InferenceReplica): boolean {
  return replica.metadata.deletionTimestamp !== undefined || isPreempted(replica);
}

function slotsOf({ want, revision, replicas }: SlotsInput): Slot[] {
  return Array.from({ length: want }, (_, ordinal) => {
    const here = replicas.filter((replica) => !isLeaving(replica) && ordinalOf(replica) === ordinal);
    const isCurrent = ({ spec }: InferenceReplica) => spec.template.revision === revision;
    return { ordinal, current: here.filter(isCurrent), old: here.filter((one) => !isCurrent(one)) };
  });
}

/** Highest ordinals first. */
function beyond({ want, replicas }: SlotsInput): InferenceReplica[] {
  return replicas
    .filter((replica) => !isLeaving(replica) && ordinalOf(replica) >= want)
    .sort((a, b) => ordinalOf(b) - ordinalOf(a));
}

/** What a ready replica of the current revision makes superfluous, and what of the past serves nobody. */
function superseded({ current, old }: Slot, { revision }: SlotsInput): Removal[] {
  const serving = current.find(isReady);
  if (serving === undefined) {
    const isIdle = revision !== undefined && current.length === 0 && !old.some(isReady);
    return isIdle ? old.map((replica) => ({ replica, because: `revision ${revision} takes its place` })) : [];
  }
  const because = `${serving.metadata.name} serves in its place`;
  return [...current, ...old]
    .filter((replica) => replica !== serving)
    .map((replica) => ({ replica, because }));
}

function wantsHost({ current, old }: Slot, input: SlotsInput, surging: number): Wanted["why"] | undefined {
  if (input.revision === undefined) return undefined;
  if (current.length > 0) {
    const isStuck = current.every(({ metadata }) => input.displaced.has(metadata.name));
    return isStuck ? "replace" : undefined;
  }
  if (!old.some(isReady)) return "fill";
  return surging < input.maxSurge ? "surge" : undefined;
}
