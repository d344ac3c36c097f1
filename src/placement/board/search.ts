/** The best host for a slot. Looks at as few hosts as it can: by shelf, roomiest first, until no other can be better. */
import {
  MOST_OF_KNOWN,
  MOST_OF_UNKNOWN,
  rateHost,
  rateMemory,
  type ScoreContext,
  whyHost,
} from "../scores.ts";
import type { Demand, Placed } from "../types.ts";
import { type Cell, firstRefusal, refusedByChoice, roomFor } from "./cell.ts";
import { type Floor, fastestWith, holdersOf } from "./floor.ts";
import { firstWithRoom } from "./shelves.ts";
import { byTurn, type Waiter } from "./waiter.ts";

interface Best {
  cell: Cell | undefined;
  total: number;
}

interface Search {
  readonly floor: Floor;
  readonly waiter: Waiter;
  readonly now: number;
  readonly fastest: number;
  readonly best: Best;
}

/** So many hosts with the weights are rated first, and the others then without their bonus. */
const FEW = 16;

/** Among all hosts, or among some. */
export function findHost(
  floor: Floor,
  waiter: Waiter,
  now: number,
  among?: Iterable<string>,
): Placed | undefined {
  const { demand } = waiter;
  const best: Best = { cell: undefined, total: Number.NEGATIVE_INFINITY };
  const search = { floor, waiter, now, fastest: fastestWith(floor, demand.weights), best };
  const named = demand.choice.hosts;
  if (among !== undefined) rateAll(search, among);
  else if (named.length > 0) rateAll(search, named);
  else if (!demand.memory.known) rateAll(search, floor.cells.keys());
  else searchShelves(search);
  const { cell, total } = best;
  if (cell === undefined) return undefined;
  return {
    service: demand.service,
    ordinal: demand.ordinal,
    host: cell.name,
    score: Math.round(total * 100) / 100,
    why: whyHost(demand, cell.facts, contextOf(search, cell)),
    ...(waiter.effective > demand.priority ? { earned: waiter.effective } : {}),
  };
}

/** Replicas of the same service on a host; whoever holds the same slot makes way for the new one, and is none. */
export function siblingsOn(floor: Floor, { name, siblings }: Cell, demand: Demand): number {
  const all = siblings.get(demand.service) ?? 0;
  if (all === 0) return 0;
  return all - demand.predecessors.filter(({ replica }) => floor.hostOf.get(replica) === name).length;
}

/** A host that is kept free is out for those who are behind and have no higher priority of their own. */
export function isHeldAgainst({ heldFor }: Cell, waiter: Waiter): boolean {
  if (heldFor === undefined || heldFor === waiter) return false;
  return waiter.demand.priority <= heldFor.demand.priority && byTurn(waiter, heldFor) > 0;
}

/** Does everything but memory allow it here? */
export function isAllowed(floor: Floor, cell: Cell, waiter: Waiter, now: number): boolean {
  if (cell.refused !== undefined || isHeldAgainst(cell, waiter)) return false;
  if (refusedByChoice(cell, waiter) !== undefined) return false;
  const { demand } = waiter;
  const isPlain =
    demand.choice.spread !== "Required" && demand.refusals.length === 0 && demand.limit === undefined;
  if (isPlain) return cell.facts.budget.known || !demand.memory.known;
  const siblings = siblingsOn(floor, cell, demand);
  // Nothing counts as claimed: memory is looked at by whoever asks.
  const refused = firstRefusal("pair", demand, cell.facts, { claimedBytes: 0, siblings, now });
  return refused === undefined || refused.code === "HostMemoryShort";
}

function searchShelves(search: Search): void {
  const { floor, waiter } = search;
  const { demand } = waiter;
  const holders = holdersOf(floor, demand.weights);
  const areFew = holders.size + demand.predecessors.length <= FEW;
  if (areFew) {
    rateAll(search, holders);
    rateAll(
      search,
      demand.predecessors.map(({ host }) => host),
    );
  }
  const unmeasured = search.fastest > 0 ? 1 : 0;
  const most = areFew ? MOST_OF_UNKNOWN + unmeasured : MOST_OF_KNOWN;
  for (const shelf of floor.shelves.byBudget.values()) searchShelf(search, shelf, most);
}

/** Along a shelf the memory score only falls, so the rest can be skipped once it cannot win. */
function searchShelf(search: Search, shelf: readonly Cell[], most: number): void {
  const { waiter, best } = search;
  const { demand } = waiter;
  const isPacking = demand.choice.spread === "None";
  const first = firstWithRoom(shelf, waiter.bytes);
  const step = isPacking ? 1 : -1;
  const bonus = isPacking ? most - 4 : most;
  for (let at = isPacking ? first : shelf.length - 1; at >= first && at < shelf.length; at += step) {
    const cell = shelf[at];
    if (cell === undefined) break;
    const ceiling = bonus + rateMemory(demand, cell.facts, { claimedBytes: claimedFor(cell, waiter) });
    if (ceiling < best.total) break;
    const total = rate(search, cell);
    if (total !== undefined && total >= ceiling) break;
  }
}

function rateAll(search: Search, names: Iterable<string>): void {
  for (const name of names) {
    const cell = search.floor.cells.get(name);
    if (cell !== undefined) rate(search, cell);
  }
}

/** Notes the host where it is the best so far; undefined where it cannot take the slot. */
function rate(search: Search, cell: Cell): number | undefined {
  const { floor, waiter, now, best } = search;
  const { memory } = waiter.demand;
  if (memory.known && roomFor(cell, waiter) < memory.bytes) return undefined;
  if (!isAllowed(floor, cell, waiter, now)) return undefined;
  const total = rateHost(waiter.demand, cell.facts, contextOf(search, cell));
  const isBetter =
    best.cell === undefined || total > best.total || (total === best.total && cell.name < best.cell.name);
  if (isBetter) {
    best.cell = cell;
    best.total = total;
  }
  return total;
}

function contextOf({ floor, waiter, fastest }: Search, cell: Cell): ScoreContext {
  const siblings = siblingsOn(floor, cell, waiter.demand);
  return { claimedBytes: claimedFor(cell, waiter), siblings, fastest };
}

/** What is not free for it, whether claimed or promised. */
function claimedFor(cell: Cell, waiter: Waiter): number {
  const { budget } = cell.facts;
  return budget.known ? budget.bytes - roomFor(cell, waiter) : cell.claimedBytes;
}
