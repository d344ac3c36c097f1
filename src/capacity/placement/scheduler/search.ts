/** Finds the best host for a slot by filters and scores. The indexes minimize the number of scored hosts. */

import {
  type MachineScore,
  type ScoreInputs,
  type ScoreScale,
  type ScoreWeights,
  scoreMachine,
  scoreOf,
  scoreRank,
} from "../../score.ts";
import { firstRefusal } from "../filters.ts";
import { hostSpeed } from "../machine.ts";
import { maxScore, placementReason, rateHost, type ScoreContext } from "../scores.ts";
import { type Demand, needBytes, type Placed } from "../types.ts";
import { fleetOf, type SchedulerCache } from "./cache.ts";
import { freeFor, type HostInfo, ownBytes, siblingsOn } from "./host-info.ts";
import { byTurn, type PendingSlot } from "./queue.ts";
import { lowerBound } from "./sorted.ts";

export interface ScoredHost extends MachineScore, ScoreInputs {
  readonly deviceClass: string | undefined;
}

interface Search {
  readonly slot: PendingSlot;
  readonly now: number;
  readonly weights: ScoreWeights;
  readonly scale: ScoreScale;
  best: HostInfo | undefined;
  bestScore: number;
}

/** Maximum number of hosts with the model and without a live rate that are scored individually. */
const FEW = 16;
/** More than a bound can be too low by rounding. */
const ROUNDING = 1e-9;

/** Finds the best host among all hosts, or among the given ones. */
export function findHostFor(
  cache: SchedulerCache,
  slot: PendingSlot,
  now: number,
  among?: Iterable<string>,
): Placed | undefined {
  const { service, ordinal, priority, choice, memory } = slot.demand;
  const { weights } = cache;
  const scale = scaleOf(cache, slot.demand);
  const search: Search = {
    slot,
    now,
    weights,
    scale,
    best: undefined,
    bestScore: Number.NEGATIVE_INFINITY,
  };
  const named = among ?? (choice.hosts.length > 0 ? choice.hosts : undefined);
  if (named !== undefined) scoreNamed(cache, search, named);
  else if (memory.known) searchIndexes(cache, search);
  else scoreNamed(cache, search, cache.hosts.keys());
  const { best, bestScore } = search;
  if (best === undefined) return undefined;
  const { why } = machineScoreOf(cache, slot.demand, best);
  return {
    service,
    ordinal,
    host: best.name,
    score: Math.round(bestScore * 100) / 100,
    why: placementReason(slot.demand, best.facts, contextOf(search, best), why),
    earned: slot.effective > priority ? slot.effective : undefined,
  };
}

/** The score of a host with its inputs. */
export function machineScoreOf(cache: SchedulerCache, demand: Demand, info: HostInfo): ScoredHost {
  const { deviceClass } = info.facts;
  const inputs = scoreInputsOf(demand, info);
  return {
    deviceClass,
    ...inputs,
    ...scoreMachine({ name: info.name, ...inputs }, scaleOf(cache, demand), cache.weights),
  };
}

/** Maxima over all hosts, whether or not they can run the slot. */
function scaleOf(cache: SchedulerCache, { speeds, weights, choice }: Demand): ScoreScale {
  const { deviceClasses, maxCost } = fleetOf(cache);
  let fastest: number | undefined;
  const note = (speed: number | undefined) => {
    if (speed !== undefined) fastest = Math.max(fastest ?? 0, speed);
  };
  for (const deviceClass of deviceClasses) note(hostSpeed({ deviceClass }, speeds, undefined)?.value);
  // Sorted by live rate, so the first one that counts is the fastest.
  const live = cache.byModel
    .get(weights.source)
    ?.find(({ facts: { deviceClass } }) => hostSpeed({ deviceClass }, speeds, undefined) === undefined);
  note(live?.weights.get(weights.source));
  // With spread None a service fills hosts one by one, so their load does not count.
  return { tokensPerSecond: fastest, utilization: choice.spread === "None" ? undefined : 1, cost: maxCost };
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
  const { predecessors, lastHosts = [] } = search.slot.demand;
  // The bounds of the indexes leave out what only these hosts have.
  scoreNamed(cache, search, lastHosts);
  const areAllScored = scoreWithWeights(cache, search) && predecessors.length <= FEW;
  if (areAllScored) scoreNamed(cache, search, new Set(predecessors.map(({ host }) => host)));
  for (const hosts of cache.byBudget.values()) scoreByMemory(search, hosts, !areAllScored);
}

/** Scores hosts with the model, the highest live rate first, until the remaining ones cannot win even with all their memory free. */
function scoreWithWeights(cache: SchedulerCache, search: Search): boolean {
  const { slot } = search;
  const { source, sha256 = "" } = slot.demand.weights;
  const withoutRate = maxRankWithoutRate(cache, search);
  let unscored = 0;
  for (const key of [source, sha256]) {
    for (const info of cache.byModel.get(key) ?? []) {
      if (!hasMemory(info, slot)) continue;
      const live = hostSpeed({ deviceClass: undefined }, {}, info.weights.get(source));
      // The live rates of the remaining hosts are no higher, or unknown.
      if (cannotWin(search, Math.max(withoutRate, rankOf(search, { ...IDLE, tokensPerSecond: live })))) break;
      const inputs = scoreInputsOf(slot.demand, info);
      // The other index has an exact bound for hosts without a live rate.
      const isLive = inputs.tokensPerSecond?.basis === "live";
      if (cannotWin(search, rankOf(search, inputs)) || (!isLive && ++unscored > FEW)) continue;
      score(search, info);
    }
  }
  return unscored <= FEW;
}

/** The best case of a machine apart from its speed. */
const IDLE = { utilization: 0, cost: 0 };

/** Upper bound for hosts whose speed is that of their class, or unknown. */
function maxRankWithoutRate(cache: SchedulerCache, search: Search): number {
  const { speeds } = search.slot.demand;
  const classes = [undefined, ...fleetOf(cache).deviceClasses];
  const ranks = classes.map((deviceClass) =>
    rankOf(search, { ...IDLE, tokensPerSecond: hostSpeed({ deviceClass }, speeds, undefined) }),
  );
  return Math.max(...ranks);
}

/** True if a host with the weights and this rank cannot win even with all its memory free. */
function cannotWin({ bestScore, slot }: Search, rank: number): boolean {
  return maxScore(slot.demand, rank) + ROUNDING < bestScore;
}

/**
 * Hosts of one list differ only in memory, weights and siblings, and the memory score decreases along it: the remaining hosts are
 * skipped once they cannot win. Hosts with a live rate are scored already.
 */
function scoreByMemory(search: Search, hosts: readonly HostInfo[], hasWeights: boolean): void {
  const { demand } = search.slot;
  const [any] = hosts;
  if (any === undefined) return;
  const need = needBytes(demand, any.facts);
  const first = lowerBound(hosts, ({ freeBytes }) => freeBytes < need);
  if (first === hosts.length) return;
  const tokensPerSecond = hostSpeed(any.facts, demand.speeds, undefined);
  const rank = rankOf(search, { tokensPerSecond, utilization: any.utilization, cost: any.facts.cost });
  const isPacking = demand.choice.spread === "None";
  const step = isPacking ? 1 : -1;
  for (let at = isPacking ? first : hosts.length - 1; at >= first && at < hosts.length; at += step) {
    const info = hosts[at];
    if (info === undefined) break;
    const claimedBytes = unavailableBytes(info, search.slot);
    const ceiling = rateHost(demand, info.facts, { claimedBytes, siblings: 0, hasWeights, rank });
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
  if (!hasMemory(info, slot) || !isAllowed(info, slot, now)) return undefined;
  const total = rateHost(slot.demand, info.facts, contextOf(search, info));
  if (best === undefined || total > bestScore || (total === bestScore && info.name < best.name)) {
    search.best = info;
    search.bestScore = total;
  }
  return total;
}

function hasMemory(info: HostInfo, slot: PendingSlot): boolean {
  const { demand } = slot;
  return !demand.memory.known || freeFor(info, slot) >= needBytes(demand, info.facts);
}

function contextOf(search: Search, info: HostInfo): ScoreContext {
  const { slot } = search;
  const { weights, predecessors, lastHosts } = slot.demand;
  const { source, sha256 = "" } = weights;
  const hasWeights =
    info.weights.has(source) ||
    info.weights.has(sha256) ||
    predecessors.some((one) => one.sharesWeights && one.host === info.name);
  return {
    claimedBytes: unavailableBytes(info, slot),
    siblings: siblingsOn(info, slot.demand),
    hasWeights,
    isLastHost: lastHosts?.includes(info.name) === true,
    rank: rankOf(search, scoreInputsOf(slot.demand, info)),
  };
}

function scoreInputsOf(demand: Demand, { facts, utilization, weights }: HostInfo): ScoreInputs {
  const { speeds, weights: modelWeights } = demand;
  return {
    tokensPerSecond: hostSpeed(facts, speeds, weights.get(modelWeights.source)),
    utilization,
    cost: facts.cost,
  };
}

function rankOf({ scale, weights }: Search, inputs: ScoreInputs): number {
  return scoreRank(scoreOf(inputs, scale, weights), weights);
}

/** Bytes that are claimed, or promised to nominated slots. */
function unavailableBytes(info: HostInfo, slot: PendingSlot): number {
  const { budget } = info.facts;
  return budget.known ? budget.bytes - freeFor(info, slot) : info.claimedBytes;
}
