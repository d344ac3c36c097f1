/** One host on the board, with its sums kept up to date: no pass adds up what has not changed. */
import type { ErrorCode } from "../../errors.ts";
import { type FilterContext, filters } from "../filters.ts";
import type { Demand, HostClaim, HostFacts } from "../types.ts";
import type { Waiter } from "./waiter.ts";

/** Why a host is out; `passed` counts the filters before that one, so more is nearer. */
export interface Refused {
  readonly code: ErrorCode;
  readonly message: string;
  readonly passed: number;
}

export interface Cell {
  readonly name: string;
  facts: HostFacts;
  /** By what depends on the host alone. */
  refused: Refused | undefined;
  /** By what depends on host and choice, for each choice that was asked for; null where it passes. */
  readonly choices: Map<string, Refused | null>;
  readonly claims: Map<string, HostClaim>;
  readonly siblings: Map<string, number>;
  /** The board's {@link Orders}. */
  readonly orders: Orders;
  /** Slots that room is being made for here. */
  readonly nominees: Set<Waiter>;
  claimedBytes: number;
  leavingBytes: number;
  /** Of replicas whose owners allow that their place is taken, by anybody. */
  takeableBytes: number;
  /** The waiter that the host is kept free for. */
  heldFor: Waiter | undefined;
  /** Bytes that a newcomer may take; what the shelves are sorted by. */
  open: number;
  evictable: EvictableSums | undefined;
}

/** Replicas that were chosen to make way and do not show it yet, with the slot they make way for. */
export type Orders = Map<string, string>;

/** Bytes whose holders may be told to make way, by their priority; good until some earned class ends. */
export interface EvictableSums {
  readonly steps: readonly { readonly priority: number; readonly bytes: number }[];
  readonly untilMs: number;
}

const NO_CONTEXT: FilterContext = { claimedBytes: 0, siblings: 0, now: 0 };
/** Only reads the host. */
const NO_DEMAND = {} as Demand;

export function newCell(facts: HostFacts, orders: Orders): Cell {
  const cell: Cell = {
    name: facts.name,
    facts,
    refused: undefined,
    choices: new Map(),
    claims: new Map(),
    siblings: new Map(),
    orders,
    nominees: new Set(),
    claimedBytes: 0,
    leavingBytes: 0,
    takeableBytes: 0,
    heldFor: undefined,
    open: 0,
    evictable: undefined,
  };
  setFacts(cell, facts);
  return cell;
}

/** What the host is now; what was worked out from the old facts is forgotten. */
export function setFacts(cell: Cell, facts: HostFacts): void {
  cell.facts = facts;
  cell.refused = firstRefusal("host", NO_DEMAND, facts, NO_CONTEXT);
  cell.choices.clear();
  settleOpen(cell);
}

/** By the filters of one scope, in their order. */
export function firstRefusal(
  scope: "host" | "choice" | "pair",
  demand: Demand,
  host: HostFacts,
  context: FilterContext,
): Refused | undefined {
  for (const [passed, filter] of filters.entries()) {
    if (filter.scope !== scope) continue;
    const message = filter.refuse(demand, host, context);
    if (message !== undefined) return { code: filter.code, message, passed };
  }
  return undefined;
}

/** Remembered: most services ask for the same. */
export function refusedByChoice(cell: Cell, { demand, choiceKey }: Waiter): Refused | undefined {
  const known = cell.choices.get(choiceKey);
  if (known !== undefined) return known ?? undefined;
  const refused = firstRefusal("choice", demand, cell.facts, NO_CONTEXT);
  cell.choices.set(choiceKey, refused ?? null);
  return refused;
}

export function addClaim(cell: Cell, claim: HostClaim): void {
  dropClaim(cell, claim.replica);
  cell.claims.set(claim.replica, claim);
  cell.siblings.set(claim.service, (cell.siblings.get(claim.service) ?? 0) + 1);
  // What shows that it leaves needs no order any more.
  if (claim.leaving !== undefined) cell.orders.delete(claim.replica);
  settleSums(cell);
}

/** The order stays: the claim may only be replaced by its newer self. */
export function dropClaim(cell: Cell, replica: string): HostClaim | undefined {
  const claim = cell.claims.get(replica);
  if (claim === undefined) return undefined;
  cell.claims.delete(replica);
  const left = (cell.siblings.get(claim.service) ?? 1) - 1;
  if (left > 0) cell.siblings.set(claim.service, left);
  else cell.siblings.delete(claim.service);
  settleSums(cell);
  return claim;
}

export function isLeaving(cell: Cell, { replica, leaving }: HostClaim): boolean {
  return leaving !== undefined || cell.orders.has(replica);
}

/** Sums of a host's few replicas; afterwards its shelf has to be told. */
export function settleSums(cell: Cell): void {
  let claimed = 0;
  let leaving = 0;
  let takeable = 0;
  for (const claim of cell.claims.values()) {
    claimed += claim.bytes;
    if (isLeaving(cell, claim)) leaving += claim.bytes;
    else if (claim.eviction !== undefined) takeable += claim.bytes;
  }
  cell.claimedBytes = claimed;
  cell.leavingBytes = leaving;
  cell.takeableBytes = takeable;
  cell.evictable = undefined;
  settleOpen(cell);
}

/** What is free, less what nominees need beyond that which is leaving for them. */
export function settleOpen(cell: Cell): void {
  cell.open = roomFor(cell, undefined);
}

/** Bytes that a waiter may take now: nominees go first, but for itself. */
export function roomFor(cell: Cell, waiter: Waiter | undefined): number {
  const { budget } = cell.facts;
  if (!budget.known) return 0;
  if (cell.nominees.size === 0) return budget.bytes - cell.claimedBytes;
  let reserved = 0;
  for (const nominee of cell.nominees) if (nominee !== waiter) reserved += nominee.bytes;
  return budget.bytes - cell.claimedBytes - Math.max(0, reserved - cell.leavingBytes);
}

/** The priority with which a replica defends its place; none where nobody may take it. */
export function defence({ eviction }: HostClaim, now: number): number {
  if (eviction === undefined) return Number.POSITIVE_INFINITY;
  const { priority, earned } = eviction;
  return earned !== undefined && now < earned.untilMs ? Math.max(priority, earned.priority) : priority;
}

/** Bytes that could be taken from lower priorities. */
export function evictableBytes(cell: Cell, priority: number, now: number): number {
  if (cell.evictable === undefined || now >= cell.evictable.untilMs)
    cell.evictable = evictableSums(cell, now);
  let bytes = 0;
  for (const step of cell.evictable.steps) if (step.priority < priority) bytes += step.bytes;
  return bytes;
}

function evictableSums(cell: Cell, now: number): EvictableSums {
  const sums = new Map<number, number>();
  let untilMs = Number.POSITIVE_INFINITY;
  for (const claim of cell.claims.values()) {
    const priority = defence(claim, now);
    if (priority === Number.POSITIVE_INFINITY || isLeaving(cell, claim)) continue;
    const earnedUntilMs = claim.eviction?.earned?.untilMs ?? 0;
    if (earnedUntilMs > now) untilMs = Math.min(untilMs, earnedUntilMs);
    sums.set(priority, (sums.get(priority) ?? 0) + claim.bytes);
  }
  return { steps: [...sums].map(([priority, bytes]) => ({ priority, bytes })), untilMs };
}
