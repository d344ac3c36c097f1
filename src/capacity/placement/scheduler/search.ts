/** Finds the best host for a slot by filters and scores. The indexes minimize the number of scored hosts. */

import { firstRefusal } from "../filters.ts";
import {
  MAX_SCORE_WITH_WEIGHTS,
  MAX_SCORE_WITHOUT_WEIGHTS,
  MAX_SPEED_SCORE,
  placementReason,
  rateHost,
  rateMemory,
  type ScoreContext,
  UNMEASURED,
} from "../scores.ts";
import { needBytes, type Placed } from "../types.ts";
import type { SchedulerCache } from "./cache.ts";
import { freeFor, type HostInfo, ownBytes, siblingsOn } from "./host-info.ts";
import { byTurn, type PendingSlot } from "./queue.ts";
import { lowerBound } from "./sorted.ts";

interface Search {
  readonly slot: PendingSlot;
  readonly now: number;
  /** Maximum measured tokens per second of a host with this model; 0 if none was measured. */
  readonly fastest: number;
  best: HostInfo | undefined;
  bestScore: number;
}

/** Maximum number of hosts with the model and without a measurement that are scored individually. */
const FEW = 16;

/** Finds the best host among all hosts, or among the given ones. */
export function findHostFor(
  cache: SchedulerCache,
  slot: PendingSlot,
  now: number,
  among?: Iterable<string>,
): Placed | undefined {
  const { service, ordinal, priority, weights, choice, memory } = slot.demand;
  const fastest = cache.byModel.get(weights.source)?.[0]?.weights.get(weights.source) ?? 0;
  const search: Search = { slot, now, fastest, best: undefined, bestScore: Number.NEGATIVE_INFINITY };
  const named = among ?? (choice.hosts.length > 0 ? choice.hosts : undefined);
  if (named !== undefined) scoreNamed(cache, search, named);
  else if (memory.known) searchIndexes(cache, search);
  else scoreNamed(cache, search, cache.hosts.keys());
  const { best, bestScore } = search;
  if (best === undefined) return undefined;
  return {
    service,
    ordinal,
    host: best.name,
    score: Math.round(bestScore * 100) / 100,
    why: placementReason(slot.demand, best.facts, contextOf(search, best)),
    earned: slot.effective > priority ? slot.effective : undefined,
  };
}

/** A reserved host is excluded for slots that are later in the queue and whose own priority is not higher. */
export function isReservedAgainst({ reservedFor }: HostInfo, slot: PendingSlot): boolean {
  if (reservedFor === undefined || reservedFor.key === slot.key) return false;
  return slot.demand.priority <= reservedFor.demand.priority && byTurn(slot, reservedFor) > 0;
}

/** True if the host passes all filters except memory. */
export function isAllowed(info: HostInfo, slot: PendingSlot, now: number): boolean {
  if (info.refused !== undefined || isReservedAgainst(info, slot)) return false;
  const siblings = slot.demand.choice.spread === "Required" ? siblingsOn(info, slot.demand) : 0;
  return firstRefusal("slot", slot.demand, info.facts, { siblings, now }) === undefined;
}

/** Same for a host on which a replica of the slot already waits: the host refused it for the memory that is being freed. */
export function isAllowedToStay(info: HostInfo, slot: PendingSlot, now: number): boolean {
  if (ownBytes(info, slot.demand) === 0) return isAllowed(info, slot, now);
  return isAllowed(info, { ...slot, demand: { ...slot.demand, refusals: [] } }, now);
}

function searchIndexes(cache: SchedulerCache, search: Search): void {
  const { predecessors } = search.slot.demand;
  const areAllScored = predecessors.length <= FEW && scoreWithWeights(cache, search);
  if (areAllScored) scoreNamed(cache, search, new Set(predecessors.map(({ host }) => host)));
  const most = areAllScored ? MAX_SCORE_WITHOUT_WEIGHTS : MAX_SCORE_WITH_WEIGHTS;
  for (const hosts of cache.byBudget.values())
    scoreByMemory(search, hosts, most + (search.fastest > 0 ? UNMEASURED : 0));
}

/** Scores hosts with the model, the fastest first, until the remaining ones cannot win even with all their memory free. */
function scoreWithWeights({ byModel }: SchedulerCache, search: Search): boolean {
  const { source, sha256 = "" } = search.slot.demand.weights;
  let unmeasured = 0;
  for (const key of [source, sha256]) {
    for (const info of byModel.get(key) ?? []) {
      const speed = info.weights.get(source);
      const forSpeed = speedScore(search, speed);
      // Hosts without a measurement are sorted after the slowest host.
      if (cannotWin(search, Math.max(forSpeed, UNMEASURED))) break;
      if (cannotWin(search, forSpeed)) continue;
      if (speed === undefined && ++unmeasured > FEW) return false;
      score(search, info);
    }
  }
  return true;
}

function speedScore({ fastest }: Search, speed: number | undefined): number {
  return speed === undefined ? UNMEASURED : (MAX_SPEED_SCORE * speed) / fastest;
}

/** True if a host with the weights and this speed score cannot win even with all its memory free. */
function cannotWin({ bestScore }: Search, forSpeed: number): boolean {
  return MAX_SCORE_WITH_WEIGHTS + forSpeed + 1 < bestScore;
}

/** The memory score decreases along the hosts of a budget, so the remaining hosts are skipped once they cannot win. */
function scoreByMemory(search: Search, hosts: readonly HostInfo[], most: number): void {
  const { demand } = search.slot;
  const [any] = hosts;
  const need = any === undefined ? 0 : needBytes(demand, any.facts);
  const isPacking = demand.choice.spread === "None";
  const first = lowerBound(hosts, ({ freeBytes }) => freeBytes < need);
  const step = isPacking ? 1 : -1;
  const bonus = isPacking ? most - MAX_SCORE_WITHOUT_WEIGHTS : most;
  for (let at = isPacking ? first : hosts.length - 1; at >= first && at < hosts.length; at += step) {
    const info = hosts[at];
    if (info === undefined) break;
    const claimedBytes = unavailableBytes(info, search.slot);
    const ceiling = bonus + rateMemory(demand, info.facts, { claimedBytes });
    if (ceiling < search.bestScore) break;
    const total = score(search, info);
    if (total !== undefined && total >= ceiling) break;
  }
}

function scoreNamed({ hosts }: SchedulerCache, search: Search, names: Iterable<string>): void {
  for (const name of names) {
    const info = hosts.get(name);
    if (info !== undefined) score(search, info);
  }
}

/** Records the host if it is the best so far; undefined if it cannot run the slot. */
function score(search: Search, info: HostInfo): number | undefined {
  const { slot, now, best, bestScore } = search;
  const { demand } = slot;
  if (demand.memory.known && freeFor(info, slot) < needBytes(demand, info.facts)) return undefined;
  if (!isAllowed(info, slot, now)) return undefined;
  const total = rateHost(demand, info.facts, contextOf(search, info));
  if (best === undefined || total > bestScore || (total === bestScore && info.name < best.name)) {
    search.best = info;
    search.bestScore = total;
  }
  return total;
}

function contextOf({ slot, fastest }: Search, info: HostInfo): ScoreContext {
  const { weights, predecessors } = slot.demand;
  const { source, sha256 = "" } = weights;
  const hasWeights =
    info.weights.has(source) ||
    info.weights.has(sha256) ||
    predecessors.some((one) => one.sharesWeights && one.host === info.name);
  return {
    claimedBytes: unavailableBytes(info, slot),
    siblings: siblingsOn(info, slot.demand),
    hasWeights,
    speed: info.weights.get(source),
    fastest,
  };
}

/** Bytes that are claimed, or promised to nominated slots. */
export function unavailableBytes(info: HostInfo, slot: PendingSlot): number {
  const { budget } = info.facts;
  return budget.known ? budget.bytes - freeFor(info, slot) : info.claimedBytes;
}
