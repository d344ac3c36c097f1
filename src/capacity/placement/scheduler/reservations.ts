/** Hosts that are reserved for slots that are queued for a long time, so that small new slots do not take all memory that is freed. */
import { holdLimit, isHoldTime } from "../priority.ts";
import { needBytes } from "../types.ts";
import type { SchedulerCache } from "./cache.ts";
import { freeFor } from "./host-info.ts";
import type { PendingSlot } from "./queue.ts";
import { isAllowed } from "./search.ts";

/** The reserved host by slot key; undefined if no host is suitable. */
export type Reservations = Map<string, string | undefined>;

/** Keeps valid reservations, releases the others, and reserves hosts for the next slots. A released host counts as changed. */
export function reserveHosts(
  cache: SchedulerCache,
  reservations: Reservations,
  pending: readonly PendingSlot[],
  now: number,
): void {
  const limit = holdLimit(cache.hosts.size);
  const entitled = new Set<string>();
  let reserved = 0;
  for (const slot of pending) {
    if (reserved >= limit) break;
    if (!isEntitled(slot, now)) continue;
    entitled.add(slot.key);
    const host = chooseHost(cache, reservations, slot, now);
    if (host !== undefined) reserved += 1;
    if (!reservations.has(slot.key) || host !== reservations.get(slot.key))
      reserve(cache, reservations, slot, host);
  }
  for (const key of [...reservations.keys()]) if (!entitled.has(key)) release(cache, reservations, key);
}

/** Excludes slots that already have a serving replica, and slots that preempt. */
function isEntitled({ decision, demand, pendingSinceMs }: PendingSlot, now: number): boolean {
  if (decision.at !== "pending" || demand.mayPreempt !== true || !demand.memory.known) return false;
  return isHoldTime(now - pendingSinceMs);
}

/** Checks only the current and the changed hosts, because no other host can have become nearer. */
function chooseHost(
  cache: SchedulerCache,
  reservations: Reservations,
  slot: PendingSlot,
  now: number,
): string | undefined {
  const known = reservations.get(slot.key);
  const current = known === undefined ? undefined : nearest(cache, slot, now, [known, ...cache.changed]);
  if (current !== undefined) return current;
  const hadNone = reservations.has(slot.key) && known === undefined;
  return nearest(cache, slot, now, hadNone ? cache.changed : cache.hosts.keys());
}

/** The host that lacks the fewest bytes, among those that are large enough and not reserved for another slot. */
function nearest(
  { hosts }: SchedulerCache,
  slot: PendingSlot,
  now: number,
  among: Iterable<string>,
): string | undefined {
  let best: { name: string; missing: number } | undefined;
  for (const name of among) {
    const info = hosts.get(name);
    if (info === undefined || !info.facts.budget.known) continue;
    const need = needBytes(slot.demand, info.facts);
    if (info.facts.budget.bytes < need) continue;
    if (info.reservedFor !== undefined && info.reservedFor.key !== slot.key) continue;
    const missing = need - freeFor(info, slot);
    const isNearer =
      best === undefined || missing < best.missing || (missing === best.missing && name < best.name);
    if (isNearer && isAllowed(info, slot, now)) best = { name, missing };
  }
  return best?.name;
}

function reserve(
  cache: SchedulerCache,
  reservations: Reservations,
  slot: PendingSlot,
  host: string | undefined,
): void {
  release(cache, reservations, slot.key);
  reservations.set(slot.key, host);
  const info = cache.hosts.get(host ?? "");
  if (info !== undefined) info.reservedFor = slot;
}

function release({ hosts, changed }: SchedulerCache, reservations: Reservations, key: string): void {
  const info = hosts.get(reservations.get(key) ?? "");
  reservations.delete(key);
  if (info?.reservedFor?.key !== key) return;
  info.reservedFor = undefined;
  changed.add(info.name);
}
