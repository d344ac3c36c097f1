/** A host in the scheduler cache, with sums over its replicas that are updated only when they change. */
import { type FilterRefusal, firstRefusal, NO_CONTEXT } from "../filters.ts";
import { utilizationOf } from "../machine.ts";
import { type Demand, type HostClaim, type HostFacts, needBytes } from "../types.ts";
import type { PendingSlot } from "./queue.ts";

export interface HostInfo {
  readonly name: string;
  facts: HostFacts;
  /** Key of all facts that a score depends on, for the index of the cache. Empty without a known budget. */
  shape: string;
  /** Reason why no replica can be scheduled on the host. */
  refused: FilterRefusal | undefined;
  /** Models on its disk by source and by checksum, with tokens per second by source. */
  weights: ReadonlyMap<string, number | undefined>;
  readonly claims: Map<string, HostClaim>;
  /** Replicas chosen for preemption whose objects do not show it yet, with the slot that preempts them. */
  readonly preempted: Map<string, string>;
  /** Slots that replicas are preempted for on this host. */
  readonly nominated: Set<PendingSlot>;
  /** The slot, queued for a long time, that the host is reserved for. */
  reservedFor: PendingSlot | undefined;
  claimedBytes: number;
  leavingBytes: number;
  /** Bytes of replicas that may be preempted by some priority. */
  evictableBytes: number;
  /** The lowest priority of these replicas; infinite if there are none. */
  lowestPriority: number;
  /** Expiry of the first class that a replica earned by waiting; infinite if there is none. */
  earnedUntilMs: number;
  /** Bytes that a new slot may claim; the indexes of the cache are sorted by it. */
  freeBytes: number;
  /** Share of the slots of its replicas that are in use. */
  utilization: number | undefined;
}

export function newHostInfo(facts: HostFacts): HostInfo {
  return {
    name: facts.name,
    facts,
    shape: "",
    refused: undefined,
    weights: new Map(),
    claims: new Map(),
    preempted: new Map(),
    nominated: new Set(),
    reservedFor: undefined,
    claimedBytes: 0,
    leavingBytes: 0,
    evictableBytes: 0,
    lowestPriority: Number.POSITIVE_INFINITY,
    earnedUntilMs: Number.POSITIVE_INFINITY,
    freeBytes: 0,
    utilization: 0,
  };
}

/** Updates all values that are derived from facts and claims. */
export function refreshHostInfo(info: HostInfo): void {
  info.refused = firstRefusal("host", {} as Demand, info.facts, NO_CONTEXT);
  info.claimedBytes = 0;
  info.leavingBytes = 0;
  info.evictableBytes = 0;
  info.lowestPriority = Number.POSITIVE_INFINITY;
  info.earnedUntilMs = Number.POSITIVE_INFINITY;
  for (const claim of info.claims.values()) {
    info.claimedBytes += claim.bytes;
    info.earnedUntilMs = Math.min(info.earnedUntilMs, claim.eviction?.earned?.untilMs ?? info.earnedUntilMs);
    if (isClaimLeaving(info, claim)) {
      info.leavingBytes += claim.bytes;
    } else if (claim.eviction !== undefined) {
      info.evictableBytes += claim.bytes;
      const { priority, turn = priority } = claim.eviction;
      info.lowestPriority = Math.min(info.lowestPriority, priority, turn);
    }
  }
  info.freeBytes = freeFor(info, undefined);
  info.utilization = utilizationOf(info.claims.values());
}

/** Bytes that a slot may claim now, without those that are promised to other nominated slots. */
export function freeFor(info: HostInfo, slot: PendingSlot | undefined): number {
  const { budget } = info.facts;
  if (!budget.known) return 0;
  const beyondLeaving = Math.max(0, nominatedBytes(info, (one) => one !== slot) - info.leavingBytes);
  return budget.bytes - info.claimedBytes - beyondLeaving;
}

/** Bytes that nominated slots will claim. */
export function nominatedBytes(info: HostInfo, counts: (slot: PendingSlot) => boolean): number {
  let bytes = 0;
  for (const slot of info.nominated) if (counts(slot)) bytes += needBytes(slot.demand, info.facts);
  return bytes;
}

/** Free bytes once all leaving replicas have stopped, without regard to nominated slots. */
export function freeAfterLeaving({ facts, claimedBytes, leavingBytes }: HostInfo): number {
  return (facts.budget.known ? facts.budget.bytes : 0) - claimedBytes + leavingBytes;
}

/** Upper bound of the free bytes if a priority preempted all replicas that it may preempt. */
export function maxFreeBytes(info: HostInfo, priority: number): number {
  return freeAfterLeaving(info) + (info.lowestPriority < priority ? info.evictableBytes : 0);
}

export function isClaimLeaving({ preempted }: HostInfo, { replica, leaving }: HostClaim): boolean {
  return leaving !== undefined || preempted.has(replica);
}

/** The priority that this slot must exceed to preempt the claim; infinite if none may preempt. */
export function evictionPriority(
  { eviction }: HostClaim,
  { takesTurns }: Pick<Demand, "takesTurns">,
  now: number,
): number {
  if (eviction === undefined) return Number.POSITIVE_INFINITY;
  const { priority, turn, earned } = eviction;
  if (takesTurns === true && turn !== undefined) return turn;
  return earned !== undefined && now < earned.untilMs ? Math.max(priority, earned.priority) : priority;
}

/** Number of replicas of the same service on the host, without those that the slot replaces. */
export function siblingsOn(info: HostInfo, { service, predecessors }: Demand): number {
  let siblings = 0;
  for (const claim of info.claims.values()) {
    if (claim.service !== service) continue;
    if (!predecessors.some(({ replica }) => replica === claim.replica)) siblings += 1;
  }
  return siblings;
}

/** Bytes that the slot's own replicas claim on the host, without leaving ones. */
export function ownBytes({ claims }: HostInfo, { predecessors }: Demand): number {
  let bytes = 0;
  for (const { replica } of predecessors) {
    const claim = claims.get(replica);
    if (claim !== undefined && claim.leaving === undefined) bytes += claim.bytes;
  }
  return bytes;
}
