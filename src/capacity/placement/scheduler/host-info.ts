/** One host in the scheduler's cache, with the sums over its replicas, so that no pass adds up what has not changed. */
import { type FilterRejection, firstRefusal, NO_CONTEXT } from "../filters.ts";
import { type Demand, type HostClaim, type HostFacts, needBytes } from "../types.ts";
import type { PendingSlot } from "./queue.ts";

export interface HostInfo {
  readonly name: string;
  facts: HostFacts;
  /** Why no replica at all can go here. */
  refused: FilterRejection | undefined;
  /** Models on its disk by source and by checksum, with tokens per second by source. */
  weights: ReadonlyMap<string, number | undefined>;
  readonly claims: Map<string, HostClaim>;
  /** Replicas chosen for preemption whose objects do not show it yet, with the slot that needs their room. */
  readonly preempted: Map<string, string>;
  /** Slots that replicas are preempted for on this host. */
  readonly nominated: Set<PendingSlot>;
  /** The slot that the host is reserved for: it has been queued for long. */
  reservedFor: PendingSlot | undefined;
  claimedBytes: number;
  leavingBytes: number;
  /** Of replicas that may be preempted by some priority. */
  evictableBytes: number;
  /** The lowest priority among those; infinite where there are none. */
  lowestPriority: number;
  /** When the first class that a replica earned by waiting expires; infinite where none does. */
  earnedUntilMs: number;
  /** What a newcomer may claim; the cache's indexes are in this order. */
  freeBytes: number;
}

export function newHostInfo(facts: HostFacts): HostInfo {
  return {
    name: facts.name,
    facts,
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
  };
}

/** Brings everything that is derived from facts and claims up to date. */
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
      info.lowestPriority = Math.min(info.lowestPriority, claim.eviction.priority);
    }
  }
  info.freeBytes = freeFor(info, undefined);
}

/** Bytes that a slot may claim now. Nominated slots come first, each but for itself. */
export function freeFor(info: HostInfo, slot: PendingSlot | undefined): number {
  const { budget } = info.facts;
  if (!budget.known) return 0;
  const beyondLeaving = Math.max(0, nominatedBytes(info, (one) => one !== slot) - info.leavingBytes);
  return budget.bytes - info.claimedBytes - beyondLeaving;
}

/** What nominated slots will claim once the room is there. */
export function nominatedBytes(info: HostInfo, counts: (slot: PendingSlot) => boolean): number {
  let bytes = 0;
  for (const slot of info.nominated) if (counts(slot)) bytes += needBytes(slot.demand, info.facts);
  return bytes;
}

/** Free bytes once everything that leaves has left, nominated slots not counted. */
export function freeAfterLeaving({ facts, claimedBytes, leavingBytes }: HostInfo): number {
  return (facts.budget.known ? facts.budget.bytes : 0) - claimedBytes + leavingBytes;
}

/** The same if everything were preempted that a priority might preempt: an upper bound without a loop. */
export function maxFreeBytes(info: HostInfo, priority: number): number {
  return freeAfterLeaving(info) + (info.lowestPriority < priority ? info.evictableBytes : 0);
}

export function isClaimLeaving({ preempted }: HostInfo, { replica, leaving }: HostClaim): boolean {
  return leaving !== undefined || preempted.has(replica);
}

/** Only a higher priority preempts it; infinite where none may. */
export function evictionPriority({ eviction }: HostClaim, now: number): number {
  if (eviction === undefined) return Number.POSITIVE_INFINITY;
  const { priority, earned } = eviction;
  return earned !== undefined && now < earned.untilMs ? Math.max(priority, earned.priority) : priority;
}

/** Replicas of the same service here; those of the slot itself are replaced by it and do not count. */
export function siblingsOn(info: HostInfo, { service, predecessors }: Demand): number {
  let siblings = 0;
  for (const claim of info.claims.values()) {
    if (claim.service !== service) continue;
    if (!predecessors.some(({ replica }) => replica === claim.replica)) siblings += 1;
  }
  return siblings;
}

/** What replicas of the same slot claim here, those that leave not counted. */
export function ownBytes({ claims }: HostInfo, { predecessors }: Demand): number {
  let bytes = 0;
  for (const { replica } of predecessors) {
    const claim = claims.get(replica);
    if (claim !== undefined && claim.leaving === undefined) bytes += claim.bytes;
  }
  return bytes;
}
