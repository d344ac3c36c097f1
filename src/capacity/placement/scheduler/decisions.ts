/** Makes and withdraws decisions for demands. Every change of free memory updates the index of the cache. */
import { type Demand, needBytes, type Placed, type Preemption } from "../types.ts";
import { type SchedulerCache, update } from "./cache.ts";
import type { PreemptionCandidate } from "./preempt.ts";
import {
  addSlot,
  byTurn,
  enqueue,
  isSameDemand,
  newSlot,
  type PendingSlot,
  pendingSlotsOf,
  removeSlot,
  type SchedulingQueue,
} from "./queue.ts";
import type { Reservations } from "./reservations.ts";

export interface SchedulerState {
  readonly cache: SchedulerCache;
  readonly queue: SchedulingQueue;
  readonly reservations: Reservations;
}

/** Unchanged demands keep their decisions. True if the queue has changed. */
export function setDemands(
  state: SchedulerState,
  service: string,
  demands: readonly Demand[],
  now: number,
): boolean {
  const before = new Map(pendingSlotsOf(state.queue, service).map((slot) => [slot.key, slot]));
  let hasChanged = false;
  for (const demand of demands) {
    const slot = newSlot(demand, now);
    const known = before.get(slot.key);
    before.delete(slot.key);
    if (known !== undefined && isSame(known, slot)) {
      known.demand = demand;
      continue;
    }
    hasChanged = true;
    if (known !== undefined) remove(state, known);
    addSlot(state.queue, slot);
  }
  for (const slot of before.values()) {
    if (slot.decision.at !== "assigned") hasChanged = true;
    remove(state, slot);
  }
  return hasChanged;
}

/** Claims the memory immediately in the name of the slot, until the cache has the replica. */
export function assign(state: SchedulerState, slot: PendingSlot, placed: Placed): void {
  const info = state.cache.hosts.get(placed.host);
  if (info === undefined) return;
  withdrawDecision(state, slot);
  slot.decision = { at: "assigned", placed };
  const { demand } = slot;
  const replica = assumedReplica(slot);
  const claim = {
    replica,
    service: demand.service,
    host: info.name,
    bytes: needBytes(demand, info.facts),
  };
  update(state.cache, info, () => info.claims.set(replica, claim));
}

/** Nominates the host for the slot and marks the victims as preempted. */
export function nominate(
  state: SchedulerState,
  slot: PendingSlot,
  { info, victims, overtaken }: PreemptionCandidate,
): Preemption[] {
  for (const other of overtaken) {
    withdrawDecision(state, other);
    other.isNew = true;
  }
  slot.decision = { at: "nominated", host: info.name, victims: victims.map(({ replica }) => replica) };
  update(state.cache, info, () => {
    info.nominated.add(slot);
    for (const { replica } of victims) info.preempted.set(replica, slot.key);
  });
  return victims.map(({ replica, service }) => ({ replica, service, host: info.name, for: slot.key }));
}

/** Makes the slot pending again. Victims whose objects do not show the preemption yet are not preempted. */
export function withdrawDecision({ cache, queue }: SchedulerState, slot: PendingSlot): void {
  const { decision } = slot;
  slot.decision = { at: "pending" };
  if (decision.at === "pending") return;
  const host = decision.at === "nominated" ? decision.host : decision.placed.host;
  const info = cache.hosts.get(host);
  if (info !== undefined) {
    update(cache, info, () => {
      info.nominated.delete(slot);
      for (const [replica, key] of info.preempted) if (key === slot.key) info.preempted.delete(replica);
      info.claims.delete(assumedReplica(slot));
    });
    cache.changed.add(host);
  }
  if (decision.at === "nominated") return;
  cache.orphans.delete(assumedReplica(slot));
  if (queue.slots.has(slot.key)) enqueue(queue, slot);
}

function remove(state: SchedulerState, slot: PendingSlot): void {
  removeSlot(state.queue, slot);
  withdrawDecision(state, slot);
}

/** A decision stays valid for the same demand, unless its position in the queue has changed. */
function isSame(known: PendingSlot, slot: PendingSlot): boolean {
  if (!isSameDemand(known.demand, slot.demand)) return false;
  return known.decision.at === "assigned" || byTurn(known, { ...slot, effective: known.effective }) === 0;
}

/** No replica can have this name, because names have no spaces. */
function assumedReplica({ key }: PendingSlot): string {
  return `slot ${key}`;
}
