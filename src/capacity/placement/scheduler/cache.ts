/** The scheduler cache: all hosts with their replicas, indexed by free memory and by the models on their disks. */
import { isDeepEqual } from "../../../util/deep-equal.ts";
import { compareText } from "../../../util/text.ts";
import { DEFAULT_SCORE_WEIGHTS, type ScoreWeights } from "../../score.ts";
import type { HostClaim, HostFacts } from "../types.ts";
import { type HostInfo, newHostInfo, refreshHostInfo } from "./host-info.ts";
import { type Comparator, insertSorted, removeSorted } from "./sorted.ts";

export interface SchedulerCache {
  /** Weights of the score of machines. */
  readonly weights: ScoreWeights;
  readonly hosts: Map<string, HostInfo>;
  /** Schedulable hosts, by everything but memory that a score depends on without the weights. The last host has the most free memory. */
  readonly byBudget: Map<string, HostInfo[]>;
  /** Hosts with a model on disk, by source and by checksum; the fastest first, hosts without a measurement last. */
  readonly byModel: Map<string, HostInfo[]>;
  /** Host of each replica. */
  readonly hostOf: Map<string, string>;
  /** Claims on hosts that are not in the cache. */
  readonly orphans: Map<string, HostClaim>;
  /** Hosts that may have more free memory than in the last pass. */
  readonly changed: Set<string>;
  /** Facts about all hosts; undefined after a change until they are needed. */
  fleet: Fleet | undefined;
}

interface Fleet {
  readonly deviceClasses: ReadonlySet<string>;
  readonly maxCost: number | undefined;
}

/** Maximum difference between readings of the same moment on different clocks. */
const CLOCK_MS = 5_000;

export function newCache(weights: ScoreWeights = DEFAULT_SCORE_WEIGHTS): SchedulerCache {
  return {
    weights,
    hosts: new Map(),
    byBudget: new Map(),
    byModel: new Map(),
    hostOf: new Map(),
    orphans: new Map(),
    changed: new Set(),
    fleet: undefined,
  };
}

export function fleetOf(cache: SchedulerCache): Fleet {
  if (cache.fleet !== undefined) return cache.fleet;
  const deviceClasses = new Set<string>();
  let maxCost: number | undefined;
  for (const { facts } of cache.hosts.values()) {
    if (facts.deviceClass !== undefined) deviceClasses.add(facts.deviceClass);
    if (facts.cost !== undefined) maxCost = Math.max(maxCost ?? 0, facts.cost);
  }
  cache.fleet = { deviceClasses, maxCost };
  return cache.fleet;
}

/** Changes a host and updates its position in the index. */
export function update(cache: SchedulerCache, info: HostInfo, change: () => void): void {
  unindex(cache, info);
  change();
  refreshHostInfo(info);
  index(cache, info);
}

export function setHost(cache: SchedulerCache, facts: HostFacts): void {
  const known = cache.hosts.get(facts.name);
  if (known !== undefined && isDeepEqual(known.facts, facts)) return;
  if (known?.facts.cost !== facts.cost || known?.facts.deviceClass !== facts.deviceClass)
    cache.fleet = undefined;
  const info = known ?? newHostInfo(facts);
  update(cache, info, () => {
    info.facts = facts;
    info.shape = shapeOf(facts);
    if (known === undefined) adoptOrphans(cache, info);
  });
  setWeights(cache, info, weightsOf(facts));
  cache.hosts.set(facts.name, info);
  cache.changed.add(facts.name);
}

/** The claims of the host are stored in case it returns. */
export function removeHost(cache: SchedulerCache, name: string): void {
  const info = cache.hosts.get(name);
  if (info === undefined) return;
  setWeights(cache, info, new Map());
  unindex(cache, info);
  cache.hosts.delete(name);
  cache.fleet = undefined;
  for (const claim of info.claims.values()) cache.orphans.set(claim.replica, claim);
  cache.changed.add(name);
}

export function setClaim(cache: SchedulerCache, claim: HostClaim): void {
  const { replica, host } = claim;
  const known = cache.hosts.get(host)?.claims.get(replica);
  if (known !== undefined && isSameClaim(known, claim)) {
    noteLoad(cache, known, claim.load);
    return;
  }
  const hostBefore = cache.hostOf.get(replica);
  if (hostBefore !== undefined && hostBefore !== host) removeClaim(cache, replica);
  cache.hostOf.set(replica, host);
  const info = cache.hosts.get(host);
  if (info === undefined) {
    cache.orphans.set(replica, claim);
    return;
  }
  update(cache, info, () => {
    info.claims.set(replica, claim);
    if (claim.leaving !== undefined) info.preempted.delete(replica);
  });
  cache.changed.add(host);
}

/** A change of the load frees no memory, so no queued slot can gain from it. */
function noteLoad(cache: SchedulerCache, claim: HostClaim, load: HostClaim["load"]): void {
  const info = cache.hosts.get(claim.host);
  if (info === undefined || isDeepEqual(claim.load, load)) return;
  update(cache, info, () => info.claims.set(claim.replica, { ...claim, load }));
}

export function removeClaim(cache: SchedulerCache, replica: string): void {
  const host = cache.hostOf.get(replica) ?? "";
  cache.hostOf.delete(replica);
  cache.orphans.delete(replica);
  const info = cache.hosts.get(host);
  if (info === undefined) return;
  update(cache, info, () => {
    info.claims.delete(replica);
    info.preempted.delete(replica);
  });
  cache.changed.add(host);
}

/** Removes expired classes, so that their replicas can be preempted again. Returns when the next one expires. */
export function expireEarned({ hosts, changed }: SchedulerCache, now: number): number {
  let next = Number.POSITIVE_INFINITY;
  for (const info of hosts.values()) {
    if (info.earnedUntilMs <= now) {
      for (const [replica, claim] of info.claims) {
        const { earned, priority = 0, turn } = claim.eviction ?? {};
        if (earned !== undefined && earned.untilMs <= now)
          info.claims.set(replica, { ...claim, eviction: { priority, turn } });
      }
      refreshHostInfo(info);
      changed.add(info.name);
    }
    next = Math.min(next, info.earnedUntilMs);
  }
  return next;
}

function adoptOrphans({ orphans }: SchedulerCache, { name, claims }: HostInfo): void {
  for (const claim of orphans.values()) {
    if (claim.host !== name) continue;
    orphans.delete(claim.replica);
    claims.set(claim.replica, claim);
  }
}

function isSameClaim(a: HostClaim, b: HostClaim): boolean {
  const untilA = a.eviction?.earned?.untilMs ?? 0;
  const untilB = b.eviction?.earned?.untilMs ?? 0;
  return Math.abs(untilA - untilB) < CLOCK_MS && isDeepEqual(withoutTime(a), withoutTime(b));
}

function withoutTime({ eviction, ...rest }: HostClaim): object {
  const { priority, turn, earned } = eviction ?? {};
  return { ...rest, load: undefined, priority, turn, earned: earned?.priority };
}

function index({ byBudget }: SchedulerCache, info: HostInfo): void {
  if (!info.facts.budget.known || info.refused !== undefined) return;
  insertSorted(listOf(byBudget, indexKey(info)), info, byFree);
}

function unindex({ byBudget }: SchedulerCache, info: HostInfo): void {
  const hosts = byBudget.get(indexKey(info));
  if (hosts === undefined) return;
  removeSorted(hosts, info, byFree);
  if (hosts.length === 0) byBudget.delete(indexKey(info));
}

function indexKey({ shape, utilization }: HostInfo): string {
  return `${shape} ${utilization}`;
}

function shapeOf({ budget, accelerator, compute, deviceClass, cost }: HostFacts): string {
  const measured = compute === undefined ? "" : `${compute.factor} ${compute.extraBytes}`;
  return budget.known ? `${budget.bytes} ${accelerator} ${measured} ${deviceClass} ${cost}` : "";
}

/** Names are in descending order, so that the last of equal hosts has the first name. */
function byFree(a: HostInfo, b: HostInfo): number {
  return a.freeBytes - b.freeBytes || compareText(b.name, a.name);
}

function weightsOf({ models }: HostFacts): Map<string, number | undefined> {
  const weights = new Map<string, number | undefined>();
  for (const { source, sha256, tokensPerSecond } of models) {
    weights.set(source, tokensPerSecond ?? weights.get(source));
    if (sha256 !== undefined) weights.set(sha256, undefined);
  }
  return weights;
}

/** Updates only the entries that differ. */
function setWeights({ byModel }: SchedulerCache, info: HostInfo, weights: HostInfo["weights"]): void {
  const before = info.weights;
  for (const [key, speed] of before) {
    if (weights.has(key) && weights.get(key) === speed) continue;
    const hosts = listOf(byModel, key);
    removeSorted(hosts, info, bySpeed(key));
    if (hosts.length === 0) byModel.delete(key);
  }
  info.weights = weights;
  for (const [key, speed] of weights) {
    if (before.has(key) && before.get(key) === speed) continue;
    insertSorted(listOf(byModel, key), info, bySpeed(key));
  }
}

function bySpeed(key: string): Comparator<HostInfo> {
  return (a, b) => (b.weights.get(key) ?? 0) - (a.weights.get(key) ?? 0) || compareText(a.name, b.name);
}

function listOf(lists: Map<string, HostInfo[]>, key: string): HostInfo[] {
  const list = lists.get(key) ?? [];
  lists.set(key, list);
  return list;
}
