/** One pass over what has changed: in turn, each slot gets a host, or room is made for it, or it goes on waiting. */
import type { Placed, Preemption } from "../types.ts";
import { defence, roomFor } from "./cell.ts";
import { assign, nominate, type Table, withdraw } from "./decisions.ts";
import { settleHolds } from "./holds.ts";
import { sweep, wake } from "./line.ts";
import { findTakeover, mostRoom } from "./preempt.ts";
import { findHost, isAllowedToStay, ownBytes } from "./search.ts";
import type { Waiter } from "./waiter.ts";

export interface PassOutcome {
  readonly placed: readonly Placed[];
  readonly preempted: readonly Preemption[];
  /** Services whose decisions are others than before. */
  readonly touched: ReadonlySet<string>;
  /** Something had changed. */
  readonly hasLooked: boolean;
  readonly recheckAfterMs?: number;
}

interface Pass {
  readonly table: Table;
  readonly now: number;
  readonly placed: Placed[];
  readonly preempted: Preemption[];
  readonly touched: Set<string>;
}

/** With more changed hosts than this every host is looked at: the shelves are faster than a long list. */
const MANY = 32;
/** Each round ends by itself, since places go only to higher priorities; what is left after so many waits for the next pass. */
const MOST_ROUNDS = 100;

export function runPass(table: Table, now: number): PassOutcome {
  const { floor, line, holds } = table;
  const pass: Pass = { table, now, placed: [], preempted: [], touched: new Set() };
  expire(table, now);
  const woken = wake(line, now);
  // Its class is told in its status.
  for (const { demand } of woken) pass.touched.add(demand.service);
  let hasLooked = false;
  for (let rounds = 0; rounds < MOST_ROUNDS; rounds += 1) {
    if (woken.length > 0 || floor.dirty.size > 0 || holds.size > 0)
      settleHolds(floor, holds, line.queue, now);
    const dirty = [...floor.dirty];
    floor.dirty.clear();
    if (!round(pass, dirty)) break;
    hasLooked = true;
  }
  const { placed, preempted, touched } = pass;
  const at = Math.min(
    line.queue.length === 0 ? Number.POSITIVE_INFINITY : line.nextWakeMs,
    nextExpiry(table),
  );
  const outcome = { placed, preempted, touched, hasLooked };
  return at === Number.POSITIVE_INFINITY ? outcome : { ...outcome, recheckAfterMs: Math.max(1, at - now) };
}

/** Once through the queue; false where nobody had to be looked at. */
function round(pass: Pass, dirty: readonly string[]): boolean {
  const { queue } = pass.table.line;
  if (dirty.length === 0 && !queue.some(({ isFresh }) => isFresh)) return false;
  const prospect = prospectOf(pass, dirty);
  for (const waiter of queue) {
    if (waiter.isFresh) settle(pass, waiter, undefined);
    else if (dirty.length > 0 && mayGain(waiter, prospect)) settle(pass, waiter, dirty);
  }
  sweep(pass.table.line);
  return true;
}

/** The most that the changed hosts have to give: nearly everybody who waits is out by this alone. */
interface Prospect {
  readonly openBytes: number;
  /** With what is leaving. */
  readonly comingBytes: number;
  /** If everybody went who may be told to, and the lowest priority of those. */
  readonly mostBytes: number;
  readonly lowest: number;
}

function prospectOf({ table, now }: Pass, dirty: readonly string[]): Prospect {
  let openBytes = 0;
  let comingBytes = 0;
  let mostBytes = 0;
  let lowest = Number.POSITIVE_INFINITY;
  for (const name of dirty) {
    const cell = table.floor.cells.get(name);
    if (cell === undefined) continue;
    openBytes = Math.max(openBytes, cell.open);
    mostBytes = Math.max(mostBytes, mostRoom(cell));
    comingBytes = Math.max(comingBytes, mostRoom(cell) - cell.takeableBytes);
    for (const claim of cell.claims.values()) lowest = Math.min(lowest, defence(claim, now));
  }
  return { openBytes, comingBytes, mostBytes, lowest };
}

/** False only where no changed host can give it anything. */
function mayGain({ demand, bytes, decision }: Waiter, prospect: Prospect): boolean {
  if (decision.at === "nominated" || !demand.memory.known || bytes <= prospect.openBytes) return true;
  if (demand.predecessors.length > 0) return true;
  if (demand.mayPreempt !== true || bytes > prospect.mostBytes) return false;
  return bytes <= prospect.comingBytes || prospect.lowest < demand.priority;
}

/** `dirty` names the hosts worth looking at; absent: all. */
function settle(pass: Pass, waiter: Waiter, dirty: readonly string[] | undefined): void {
  const { table, now } = pass;
  const { floor } = table;
  const before = waiter.decision;
  waiter.isFresh = false;
  const isWhole = dirty === undefined || dirty.length > MANY;
  const placed = findHost(floor, waiter, now, isWhole ? undefined : dirty);
  if (placed !== undefined) {
    assign(table, waiter, placed);
    pass.placed.push(placed);
    pass.touched.add(waiter.demand.service);
    return;
  }
  let among: Iterable<string> = isWhole ? floor.cells.keys() : dirty;
  if (before.at === "nominated") {
    if (!isWhole && !dirty.includes(before.host)) return;
    if (isStillComing(pass, waiter, before.host)) return;
    withdraw(table, waiter);
    pass.touched.add(waiter.demand.service);
    // What it was promised is not coming, so every host counts again.
    among = floor.cells.keys();
  }
  makeRoom(pass, waiter, among);
}

function makeRoom(pass: Pass, waiter: Waiter, among: Iterable<string>): void {
  const { table, now } = pass;
  const { mayPreempt, memory, service } = { ...waiter.demand };
  if (mayPreempt !== true || !memory.known) return;
  const takeover = findTakeover(table.floor, waiter, now, among);
  if (takeover === undefined) return;
  const preemptions = nominate(table, waiter, takeover);
  pass.preempted.push(...preemptions);
  pass.touched.add(service);
  for (const one of preemptions) pass.touched.add(one.service);
  for (const other of takeover.overtaken) pass.touched.add(other.demand.service);
}

/** Will there be room once all that leaves has left? */
function isStillComing({ table, now }: Pass, waiter: Waiter, host: string): boolean {
  const cell = table.floor.cells.get(host);
  if (cell === undefined || !isAllowedToStay(table.floor, cell, waiter, now)) return false;
  const { budget } = cell.facts;
  if (!budget.known) return false;
  let reserved = 0;
  for (const nominee of cell.nominees) reserved += nominee.bytes;
  const own = ownBytes(table.floor, cell, waiter);
  const coming = budget.bytes - cell.claimedBytes + cell.leavingBytes + own;
  // A replica that waits there is let in by its agent; any other would have been placed by now.
  return reserved <= coming && (own > 0 || roomFor(cell, waiter) < waiter.bytes);
}

/** Where an earned class ends, its place can be taken again. */
function expire({ floor }: Table, now: number): void {
  const { expiries, dirty } = floor;
  const left = expiries.findIndex(({ atMs }) => atMs > now);
  for (const { host } of expiries.splice(0, left === -1 ? expiries.length : left)) dirty.add(host);
}

function nextExpiry({ floor }: Table): number {
  return floor.expiries[0]?.atMs ?? Number.POSITIVE_INFINITY;
}
