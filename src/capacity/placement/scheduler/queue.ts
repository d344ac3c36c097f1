/** The scheduling queue: slots without a host, by effective priority, which rises with the waiting time, then by age. */
import { isDeepEqual } from "../../../util/deep-equal.ts";
import { compareText } from "../../../util/text.ts";
import { REFUSAL_MS } from "../filters.ts";
import { agedPriority, nextStepMs } from "../priority.ts";
import { type Demand, type Placed, slotKey } from "../types.ts";
import { insertSorted } from "./sorted.ts";

export type Decision =
  | { readonly at: "pending" }
  /** Replicas on this host are preempted for the slot. */
  | { readonly at: "nominated"; readonly host: string; readonly victims: readonly string[] }
  | { readonly at: "assigned"; readonly placed: Placed };

export interface PendingSlot {
  readonly key: string;
  demand: Demand;
  readonly pendingSinceMs: number;
  /** Priority raised by the waiting time. */
  effective: number;
  /** Next time at which the waiting time changes something. */
  recheckAtMs: number;
  decision: Decision;
  /** All hosts must be considered, not only changed ones. */
  isNew: boolean;
}

export interface SchedulingQueue {
  /** All slots, including assigned ones that are still requested. */
  readonly slots: Map<string, PendingSlot>;
  readonly byService: Map<string, Set<string>>;
  /** Slots without a host, in order. */
  pending: PendingSlot[];
  /** Cached positions; undefined after a change of the queue. */
  positions: ReadonlyMap<string, number> | undefined;
  /** Earliest time at which the waiting time changes something. */
  recheckAtMs: number;
}

export function newQueue(): SchedulingQueue {
  const recheckAtMs = Number.POSITIVE_INFINITY;
  return { slots: new Map(), byService: new Map(), pending: [], positions: undefined, recheckAtMs };
}

export function newSlot(demand: Demand, now: number): PendingSlot {
  const slot: PendingSlot = {
    key: slotKey(demand),
    demand,
    pendingSinceMs: Math.min(now, demand.waitingSinceMs ?? now),
    effective: demand.priority,
    recheckAtMs: now,
    decision: { at: "pending" },
    isNew: true,
  };
  age(slot, now);
  return slot;
}

/** Order of the queue: effective priority (higher first), age, name, ordinal. It does not depend on the order of input. */
export function byTurn(a: PendingSlot, b: PendingSlot): number {
  return (
    b.effective - a.effective ||
    a.demand.since - b.demand.since ||
    compareText(a.demand.service, b.demand.service) ||
    a.demand.ordinal - b.demand.ordinal
  );
}

/**
 * True if a decision for one demand is valid for the other. Predecessors are ignored, because they change while a decision is
 * carried out; and so are speeds, because a new benchmark gives no host more memory.
 */
export function isSameDemand(a: Demand, b: Demand): boolean {
  return isDeepEqual(decisive(a), decisive(b));
}

function decisive(demand: Demand): object {
  return { ...demand, waitingSinceMs: 0, preempted: undefined, since: 0, speeds: {}, predecessors: [] };
}

export function pendingSlotsOf({ byService, slots }: SchedulingQueue, service: string): PendingSlot[] {
  return [...(byService.get(service) ?? [])]
    .flatMap((key) => slots.get(key) ?? [])
    .sort((a, b) => a.demand.ordinal - b.demand.ordinal);
}

export function addSlot(queue: SchedulingQueue, slot: PendingSlot): void {
  const { service } = slot.demand;
  queue.slots.set(slot.key, slot);
  const keys = queue.byService.get(service) ?? new Set<string>();
  queue.byService.set(service, keys.add(slot.key));
  enqueue(queue, slot);
}

export function removeSlot(queue: SchedulingQueue, slot: PendingSlot): void {
  queue.slots.delete(slot.key);
  const keys = queue.byService.get(slot.demand.service);
  keys?.delete(slot.key);
  if (keys?.size === 0) queue.byService.delete(slot.demand.service);
  const at = queue.pending.indexOf(slot);
  if (at === -1) return;
  queue.pending.splice(at, 1);
  queue.positions = undefined;
}

export function enqueue(queue: SchedulingQueue, slot: PendingSlot): void {
  insertSorted(queue.pending, slot, byTurn);
  queue.recheckAtMs = Math.min(queue.recheckAtMs, slot.recheckAtMs);
  queue.positions = undefined;
}

export function dropAssigned(queue: SchedulingQueue): void {
  const pending = queue.pending.filter(({ decision }) => decision.at !== "assigned");
  if (pending.length === queue.pending.length) return;
  queue.pending = pending;
  queue.positions = undefined;
}

/** Raises the priority of waiting slots and retries slots whose refusals have expired. Returns the changed slots. */
export function ageQueue(queue: SchedulingQueue, now: number): readonly PendingSlot[] {
  if (now < queue.recheckAtMs) return [];
  const changed = queue.pending.filter(({ recheckAtMs }) => recheckAtMs <= now);
  for (const slot of changed) {
    age(slot, now);
    if (slot.demand.refusals.length > 0) slot.isNew = true;
  }
  queue.recheckAtMs = Math.min(Number.POSITIVE_INFINITY, ...queue.pending.map((slot) => slot.recheckAtMs));
  queue.pending.sort(byTurn);
  queue.positions = undefined;
  return changed;
}

/** Position of each service in the queue; 1 is next. */
export function positionsOf(queue: SchedulingQueue): ReadonlyMap<string, number> {
  if (queue.positions !== undefined) return queue.positions;
  const positions = new Map<string, number>();
  for (const { demand } of queue.pending)
    if (!positions.has(demand.service)) positions.set(demand.service, positions.size + 1);
  queue.positions = positions;
  return positions;
}

function age(slot: PendingSlot, now: number): void {
  const waitedMs = now - slot.pendingSinceMs;
  slot.effective = agedPriority(slot.demand.priority, waitedMs);
  const endings = slot.demand.refusals.map(({ atMs }) => atMs + REFUSAL_MS).filter((atMs) => atMs > now);
  slot.recheckAtMs = Math.min(now + nextStepMs(waitedMs), ...endings);
}
