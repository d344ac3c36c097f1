/** A pass over all changes: in order, each slot gets a host, preempts replicas, or stays queued. */
import { needBytes, type Placed, type Preemption } from "../types.ts";
import { expireEarned } from "./cache.ts";
import { assign, nominate, type SchedulerState, withdrawDecision } from "./decisions.ts";
import {
  freeAfterLeaving,
  freeFor,
  type HostInfo,
  maxFreeBytes,
  nominatedBytes,
  ownBytes,
} from "./host-info.ts";
import { findCandidate } from "./preempt.ts";
import { ageQueue, dropAssigned, type PendingSlot } from "./queue.ts";
import { reserveHosts } from "./reservations.ts";
import { findHostFor, isAllowedToStay } from "./search.ts";

export interface PassOutcome {
  readonly placed: readonly Placed[];
  readonly preempted: readonly Preemption[];
  /** Services whose decisions have changed. */
  readonly touched: ReadonlySet<string>;
  /** False if nothing had changed. */
  readonly hasRun: boolean;
  readonly recheckAfterMs?: number;
}

interface Pass {
  readonly state: SchedulerState;
  readonly now: number;
  readonly placed: Placed[];
  readonly preempted: Preemption[];
  readonly touched: Set<string>;
}

/** If more hosts have changed, all hosts are considered, because the indexes are faster than a long list. */
const MANY = 32;
/** Rounds end because only higher priorities preempt. Slots that are left after this many rounds wait for the next pass. */
const MAX_ROUNDS = 100;

export function runPass(state: SchedulerState, now: number): PassOutcome {
  const { cache, queue, reservations } = state;
  const pass: Pass = { state, now, placed: [], preempted: [], touched: new Set() };
  const expiresAtMs = expireEarned(cache, now);
  const aged = ageQueue(queue, now);
  // The status of these services shows the effective priority.
  for (const { demand } of aged) pass.touched.add(demand.service);
  let rounds = 0;
  for (; rounds < MAX_ROUNDS; rounds += 1) {
    if (aged.length > 0 || cache.changed.size > 0 || reservations.size > 0)
      reserveHosts(cache, reservations, queue.pending, now);
    const changed = [...cache.changed];
    cache.changed.clear();
    if (!runRound(pass, changed)) break;
  }
  const { placed, preempted, touched } = pass;
  const agesAtMs = queue.pending.length === 0 ? Number.POSITIVE_INFINITY : queue.recheckAtMs;
  const atMs = Math.min(agesAtMs, expiresAtMs);
  const recheckAfterMs = atMs === Number.POSITIVE_INFINITY ? undefined : Math.max(1, atMs - now);
  return { placed, preempted, touched, hasRun: rounds > 0, recheckAfterMs };
}

/** Processes the queue once; false if there was nothing to do. */
function runRound(pass: Pass, changed: readonly string[]): boolean {
  const { cache, queue } = pass.state;
  if (changed.length === 0 && !queue.pending.some(({ isNew }) => isNew)) return false;
  const infos = changed.flatMap((name) => cache.hosts.get(name) ?? []);
  for (const slot of queue.pending) {
    if (slot.isNew) schedule(pass, slot, undefined);
    else if (changed.length > 0 && mayGain(slot, infos)) schedule(pass, slot, changed);
  }
  dropAssigned(queue);
  return true;
}

/** False if no changed host can run the slot, which is the case for nearly all queued slots. */
function mayGain({ decision, demand }: PendingSlot, changed: readonly HostInfo[]): boolean {
  if (decision.at === "nominated" || !demand.memory.known || demand.predecessors.length > 0) return true;
  return changed.some((info) => {
    const need = needBytes(demand, info.facts);
    return (
      need <= info.freeBytes || (demand.mayPreempt === true && need <= maxFreeBytes(info, demand.priority))
    );
  });
}

/** `changed` names the hosts to consider; all if undefined. */
function schedule(pass: Pass, slot: PendingSlot, changed: readonly string[] | undefined): void {
  const { state, now } = pass;
  const { cache } = state;
  const before = slot.decision;
  slot.isNew = false;
  const some = changed !== undefined && changed.length <= MANY ? changed : undefined;
  const placed = findHostFor(cache, slot, now, some);
  if (placed !== undefined) {
    assign(state, slot, placed);
    pass.placed.push(placed);
    pass.touched.add(placed.service);
    return;
  }
  let among: Iterable<string> = some ?? cache.hosts.keys();
  if (before.at === "nominated") {
    if (some?.includes(before.host) === false) return;
    if (willFit(pass, slot, before.host)) return;
    withdrawDecision(state, slot);
    pass.touched.add(slot.demand.service);
    // The nominated host will not have enough memory, so all hosts are considered again.
    among = cache.hosts.keys();
  }
  preempt(pass, slot, among);
}

function preempt({ state, now, preempted, touched }: Pass, slot: PendingSlot, among: Iterable<string>): void {
  const { mayPreempt, memory, service } = slot.demand;
  if (mayPreempt !== true || !memory.known) return;
  const candidate = findCandidate(state.cache, slot, now, among);
  if (candidate === undefined) return;
  const preemptions = nominate(state, slot, candidate);
  preempted.push(...preemptions);
  touched.add(service);
  for (const victim of preemptions) touched.add(victim.service);
  for (const { demand } of candidate.overtaken) touched.add(demand.service);
}

/** True if the nominated host will have enough memory once the preempted replicas have stopped. */
function willFit({ state, now }: Pass, slot: PendingSlot, host: string): boolean {
  const info = state.cache.hosts.get(host);
  if (info === undefined || !isAllowedToStay(info, slot, now) || !info.facts.budget.known) return false;
  const own = ownBytes(info, slot.demand);
  if (nominatedBytes(info, () => true) > freeAfterLeaving(info) + own) return false;
  // The agent admits a replica that waits there; any other slot would have been placed by now.
  return own > 0 || freeFor(info, slot) < needBytes(slot.demand, info.facts);
}
