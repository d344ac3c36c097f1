/** A slot on the board: what it wants, its turn, and what has been decided for it. */
import type { LabelSelector } from "../../api/fields/kubernetes.ts";
import { REFUSAL_MS } from "../filters.ts";
import { agedPriority, nextStepMs } from "../priority.ts";
import { type Demand, type Placed, slotKey } from "../types.ts";

export type Decision =
  | { readonly at: "waiting" }
  /** Room is being made for it on this host. */
  | { readonly at: "nominated"; readonly host: string; readonly victims: readonly string[] }
  | { readonly at: "assigned"; readonly placed: Placed };

export interface Waiter {
  readonly key: string;
  demand: Demand;
  /** Equal for demands that agree on what they ask of a host, memory apart. */
  choiceKey: string;
  bytes: number;
  waitingSinceMs: number;
  /** Its priority with what waiting has added. */
  effective: number;
  /** When time alone changes something for it. */
  wakeAtMs: number;
  decision: Decision;
  /** Every host has to be looked at for it. */
  isFresh: boolean;
}

export function newWaiter(demand: Demand, now: number): Waiter {
  const waitingSinceMs = Math.min(now, demand.waitingSinceMs ?? now);
  const waiter: Waiter = {
    key: slotKey(demand),
    demand,
    choiceKey: choiceKeyOf(demand),
    bytes: demand.memory.known ? demand.memory.bytes : 0,
    waitingSinceMs,
    effective: demand.priority,
    wakeAtMs: now,
    decision: { at: "waiting" },
    isFresh: true,
  };
  refreshTurn(waiter, now);
  return waiter;
}

/** Brings the effective priority up to now. */
export function refreshTurn(waiter: Waiter, now: number): void {
  const waitedMs = now - waiter.waitingSinceMs;
  waiter.effective = agedPriority(waiter.demand.priority, waitedMs);
  let inMs = nextStepMs(waitedMs);
  for (const { atMs } of waiter.demand.refusals) {
    const endsInMs = atMs + REFUSAL_MS - now;
    if (endsInMs > 0) inMs = Math.min(inMs, endsInMs);
  }
  waiter.wakeAtMs = now + inMs;
}

/** By effective priority (higher first), then age, then name and ordinal: the same whatever the order of input. */
export function byTurn(a: Waiter, b: Waiter): number {
  return (
    b.effective - a.effective ||
    a.demand.since - b.demand.since ||
    compareText(a.demand.service, b.demand.service) ||
    a.demand.ordinal - b.demand.ordinal
  );
}

/** Does a decision for one still hold for the other? */
export function asksTheSame(a: Demand, b: Demand): boolean {
  return JSON.stringify(decisive(a)) === JSON.stringify(decisive(b));
}

export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Not who held the slot before: that changes while a decision is carried out. */
function decisive({
  waitingSinceMs: _,
  preempted: __,
  since: ___,
  predecessors: ____,
  ...rest
}: Demand): object {
  return rest;
}

function choiceKeyOf({ runtime, choice }: Demand): string {
  const { hosts, hostSelector } = choice;
  return JSON.stringify([runtime, hosts, hostSelector satisfies LabelSelector | undefined]);
}
