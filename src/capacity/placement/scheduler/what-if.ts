/** Determines whether a slot would get a host if some replicas were stopped. Changes nothing. */
import { type Demand, needBytes } from "../types.ts";
import type { SchedulerCache } from "./cache.ts";
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
