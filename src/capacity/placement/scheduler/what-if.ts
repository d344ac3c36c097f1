/** Answers what-if questions: room after stopping replicas; how many slots fit now. Changes nothing. */
import { isAllowedBy, REFUSAL_MS } from "../filters.ts";
import { type Demand, needBytes, type PlacementMiss } from "../types.ts";
import type { SchedulerCache } from "./cache.ts";
import { placementMissOf } from "./explain.ts";
import { freeFor, type HostInfo, refreshHostInfo } from "./host-info.ts";
import { byTurn, newSlot, type PendingSlot } from "./queue.ts";
import { isAllowed } from "./search.ts";

/** `without`: `namespace/name` of the stopped replicas. Memory that slots earlier in the queue would take does not count. */
export function wouldHaveRoom(
  cache: SchedulerCache,
  pending: readonly PendingSlot[],
  demand: Demand,
  without: readonly string[],
  now: number,
): boolean {
  const slot = newSlot(demand, now);
  const earlier = pending.filter((other) => isEarlier(other, slot));
  const touched = new Set(without.map((replica) => cache.hostOf.get(replica)));
  for (const info of cache.hosts.values()) {
    const isTouched = touched.has(info.name);
    const freed = isTouched ? infoWithout(info, without) : info;
    const taken = isTouched ? takenByEarlier(freed, earlier, now) : 0;
    if (demand.memory.known && freeFor(freed, slot) - taken < needBytes(demand, info.facts)) continue;
    if (isAllowed(info, slot, now)) return true;
  }
  return false;
}

/** Room for replicas of a service on the hosts that its demand allows. */
export interface HostsRoom {
  /** Number of replicas, including those that run there and may stay. */
  readonly replicas: number;
  /** Hosts with room, sorted. */
  readonly hosts: readonly string[];
  /** Why the other allowed hosts have none. */
  readonly misses: readonly PlacementMiss[];
}

/** Counts at most `limit` replicas per host. Preemption is not considered. */
export function roomOnHosts(cache: SchedulerCache, demand: Demand, limit: number, now: number): HostsRoom {
  const slot = newSlot(demand, now);
  const hosts: string[] = [];
  const misses: PlacementMiss[] = [];
  let replicas = 0;
  for (const info of cache.hosts.values()) {
    if (!isAllowedBy(demand.choice, info.facts)) continue;
    const miss = placementMissOf(info, slot, now);
    const free = miss === undefined ? freeSlots(info, slot, limit) : 0;
    const room = Math.min(limit, stayingOn(info, demand, now) + free);
    replicas += room;
    if (room > 0) hosts.push(info.name);
    else if (miss !== undefined) misses.push(miss);
  }
  return { replicas, hosts: hosts.sort(), misses };
}

function freeSlots(info: HostInfo, slot: PendingSlot, limit: number): number {
  const { demand } = slot;
  if (demand.choice.spread === "Required") return 1;
  const need = needBytes(demand, info.facts);
  return need === 0 ? limit : Math.floor(freeFor(info, slot) / need);
}

/** Replicas of the service that run on the host and need not leave it. */
function stayingOn({ name, facts, claims }: HostInfo, { service, refusals }: Demand, now: number): number {
  const isRefused = refusals.some(({ host, atMs }) => host === name && now - atMs < REFUSAL_MS);
  const mustLeave = facts.isLost || facts.cordon === "drain" || isRefused;
  if (mustLeave) return 0;
  return [...claims.values()].filter((claim) => claim.service === service && claim.leaving === undefined)
    .length;
}

function isEarlier(other: PendingSlot, slot: PendingSlot): boolean {
  if (other.key === slot.key || other.decision.at === "nominated") return false;
  return other.demand.priority >= slot.demand.priority && byTurn(other, slot) < 0;
}

function takenByEarlier(freed: HostInfo, earlier: readonly PendingSlot[], now: number): number {
  let taken = 0;
  for (const other of earlier) {
    const need = needBytes(other.demand, freed.facts);
    if (freeFor(freed, other) - taken >= need && isAllowed(freed, other, now)) taken += need;
  }
  return taken;
}

function infoWithout(info: HostInfo, stopped: readonly string[]): HostInfo {
  const claims = new Map([...info.claims].filter(([replica]) => !stopped.includes(replica)));
  const copy = { ...info, claims };
  refreshHostInfo(copy);
  return copy;
}
