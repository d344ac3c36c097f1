/** Preemption: finds the host and the victims with the lowest cost. */
import { compareText } from "../../../util/text.ts";
import { type Demand, type HostClaim, needBytes } from "../types.ts";
import type { SchedulerCache } from "./cache.ts";
import {
  evictionPriority,
  freeAfterLeaving,
  type HostInfo,
  isClaimLeaving,
  maxFreeBytes,
  nominatedBytes,
  ownBytes,
} from "./host-info.ts";
import { byTurn, type PendingSlot } from "./queue.ts";
import { isAllowedToStay } from "./search.ts";

export interface PreemptionCandidate {
  readonly info: HostInfo;
  readonly victims: readonly HostClaim[];
  /** Nominated slots of lower priority that lose their nomination. */
  readonly overtaken: readonly PendingSlot[];
}

/** Compared from the left: highest priority of a victim, number of services, bytes, overtaken slots. */
type Cost = readonly [number, number, number, number];

interface Priced {
  readonly candidate: PreemptionCandidate;
  readonly cost: Cost;
}

/** Maximum number of replicas per host whose combinations are tried, the largest first. */
const MAX_TRIED = 12;

/** The cheapest candidate among these hosts; undefined if preemption does not help. Memory of leaving replicas is free. */
export function findCandidate(
  cache: SchedulerCache,
  slot: PendingSlot,
  now: number,
  among: Iterable<string>,
): PreemptionCandidate | undefined {
  let best: Priced | undefined;
  for (const name of among) {
    const info = cache.hosts.get(name);
    const candidate = info === undefined ? undefined : candidateOn(info, slot, now);
    if (candidate === undefined) continue;
    const priced = { candidate, cost: costOf(candidate, slot.demand, now) };
    if (best === undefined || isCheaper(priced, best)) best = priced;
  }
  return best?.candidate;
}

function candidateOn(info: HostInfo, slot: PendingSlot, now: number): PreemptionCandidate | undefined {
  const { demand } = slot;
  if (!info.facts.budget.known) return undefined;
  // A replica of the slot may already wait on the host: its claim counts once.
  const additional = needBytes(demand, info.facts) - ownBytes(info, demand);
  // This check alone excludes most hosts.
  if (additional > maxFreeBytes(info, demand.priority)) return undefined;
  const promised = nominatedBytes(info, (nominated) => !mayOvertake(slot, nominated));
  const need = additional - freeAfterLeaving(info) + promised;
  if (!isAllowedToStay(info, slot, now)) return undefined;
  const victims = need > 0 ? cheapest(info, slot, need, now) : [];
  return victims && { info, victims, overtaken: overtakenBy(info, slot, victims) };
}

function isEvictable(info: HostInfo, claim: HostClaim, demand: Demand, now: number): boolean {
  return (
    claim.bytes > 0 && evictionPriority(claim, demand, now) < demand.priority && !isClaimLeaving(info, claim)
  );
}

function mayOvertake(slot: PendingSlot, nominated: PendingSlot): boolean {
  return nominated === slot || nominated.demand.priority < slot.demand.priority;
}

/** Overtakes nominated slots from the end of the queue, and no more than necessary. */
function overtakenBy(
  info: HostInfo,
  slot: PendingSlot,
  victims: readonly HostClaim[],
): readonly PendingSlot[] {
  const bytesOf = ({ demand }: PendingSlot) => needBytes(demand, info.facts);
  const others = [...info.nominated].filter((nominated) => nominated !== slot);
  let room = freeAfterLeaving(info) + sum(victims) - bytesOf(slot);
  for (const nominated of others) room -= bytesOf(nominated);
  const overtaken: PendingSlot[] = [];
  for (const nominated of others.sort((a, b) => byTurn(b, a))) {
    if (room >= 0) break;
    if (!mayOvertake(slot, nominated)) continue;
    overtaken.push(nominated);
    room += bytesOf(nominated);
  }
  return overtaken;
}

/** Victims of the lowest priorities that suffice, with the fewest services and then the fewest bytes. */
function cheapest(
  info: HostInfo,
  { demand }: PendingSlot,
  need: number,
  now: number,
): readonly HostClaim[] | undefined {
  const claims = [...info.claims.values()].filter((claim) => isEvictable(info, claim, demand, now));
  const steps = [...new Set(claims.map((claim) => evictionPriority(claim, demand, now)))].sort(
    (a, b) => a - b,
  );
  for (const step of steps) {
    const candidates = claims.filter((claim) => evictionPriority(claim, demand, now) <= step);
    if (sum(candidates) >= need) return smallestSet(candidates, need);
  }
  return undefined;
}

function smallestSet(candidates: readonly HostClaim[], need: number): readonly HostClaim[] {
  const all = [...candidates].sort((a, b) => b.bytes - a.bytes || compareText(a.replica, b.replica));
  const tried = all.slice(0, MAX_TRIED);
  if (sum(tried) < need) return takeUntil(all, need);
  let best: { set: readonly HostClaim[]; services: number; bytes: number } | undefined;
  const visit = (
    at: number,
    set: readonly HostClaim[],
    services: number,
    bytes: number,
    left: number,
  ): void => {
    if (best !== undefined && services > best.services) return;
    if (bytes >= need) {
      if (best === undefined || services < best.services || bytes < best.bytes)
        best = { set, services, bytes };
      return;
    }
    const claim = tried[at];
    if (claim === undefined || bytes + left < need) return;
    const isKnown = set.some(({ service }) => service === claim.service);
    const remaining = left - claim.bytes;
    visit(at + 1, [...set, claim], isKnown ? services : services + 1, bytes + claim.bytes, remaining);
    visit(at + 1, set, services, bytes, remaining);
  };
  visit(0, [], 0, 0, sum(tried));
  return best?.set ?? tried;
}

function takeUntil(claims: readonly HostClaim[], need: number): readonly HostClaim[] {
  const set: HostClaim[] = [];
  for (const claim of claims) {
    if (sum(set) >= need) break;
    set.push(claim);
  }
  return set;
}

function costOf({ victims, overtaken }: PreemptionCandidate, demand: Demand, now: number): Cost {
  const highest = Math.max(0, ...victims.map((claim) => evictionPriority(claim, demand, now)));
  const services = new Set(victims.map(({ service }) => service)).size;
  return [highest, services, sum(victims), overtaken.length];
}

function isCheaper(a: Priced, b: Priced): boolean {
  for (const [index, value] of a.cost.entries()) {
    const difference = value - (b.cost[index] ?? 0);
    if (difference !== 0) return difference < 0;
  }
  return a.candidate.info.name < b.candidate.info.name;
}

function sum(claims: readonly HostClaim[]): number {
  return claims.reduce((bytes, claim) => bytes + claim.bytes, 0);
}
