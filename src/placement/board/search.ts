/** The best host for a slot. Looks at as few hosts as it can: by shelf, roomiest first, until no other can be better. */
import {
  MOST_FOR_SPEED,
  MOST_WITH_WEIGHTS,
  MOST_WITHOUT_WEIGHTS,
  rateHost,
  rateMemory,
  type ScoreContext,
  UNMEASURED,
  whyHost,
} from "../scores.ts";
import type { Demand, Placed } from "../types.ts";
import { type Cell, firstRefusal, refusedByChoice, roomFor } from "./cell.ts";
import type { Floor } from "./floor.ts";
import { fastestOf, type Holders, holdersOf } from "./holders.ts";
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
  readonly bySource: Holders;
  readonly bySha: Holders;
  readonly fastest: number;
  readonly best: Best;
}

/** So many unmeasured hosts with the weights are rated one by one, and the others then without their bonus. */
const FEW = 16;

/** Among all hosts, or among some. */
export function findHost(
  floor: Floor,
  waiter: Waiter,
  now: number,
  among?: Iterable<string>,
): Placed | undefined {
  const { demand } = waiter;
  const known = holdersOf(floor.holders, demand.weights);
  const best: Best = { cell: undefined, total: Number.NEGATIVE_INFINITY };
  const search = { floor, waiter, now, ...known, fastest: fastestOf(known.bySource), best };
  const named = demand.choice.hosts;
  if (among !== undefined) rateNamed(search, among);
  else if (named.length > 0) rateNamed(search, named);
  else if (!demand.memory.known) rateNamed(search, floor.cells.keys());
  else searchShelves(search);
  const { cell, total } = best;
  if (cell === undefined) return undefined;
  const context = contextOf(search, cell, siblingsOn(floor, cell, demand));
  return {
    service: demand.service,
    ordinal: demand.ordinal,
    host: cell.name,
    score: Math.round(total * 100) / 100,
    why: whyHost(demand, cell.facts, context),
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
  if (heldFor === undefined || heldFor.key === waiter.key) return false;
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

/** The same where a replica of the slot waits already: its host said no for want of the room that is to be made. */
export function isAllowedToStay(floor: Floor, cell: Cell, waiter: Waiter, now: number): boolean {
  const asIs = { ...waiter, demand: { ...waiter.demand, refusals: [] } };
  return isAllowed(floor, cell, ownBytes(floor, cell, waiter) > 0 ? asIs : waiter, now);
}

/** What replicas of the same slot claim on a host. */
export function ownBytes({ hostOf }: Floor, { name, claims }: Cell, { demand }: Waiter): number {
  let bytes = 0;
  for (const { replica } of demand.predecessors) {
    const claim = hostOf.get(replica) === name ? claims.get(replica) : undefined;
    if (claim !== undefined && claim.leaving === undefined) bytes += claim.bytes;
  }
  return bytes;
}

function searchShelves(search: Search): void {
  const { floor, waiter, bySource, bySha } = search;
  rateMeasured(search);
  const unmeasured = bySource.unmeasured.size + bySha.unmeasured.size;
  const areFew = unmeasured + waiter.demand.predecessors.length <= FEW;
  if (areFew) {
    for (const cell of bySource.unmeasured) rate(search, cell);
    for (const cell of bySha.unmeasured) rate(search, cell);
    for (const { host } of waiter.demand.predecessors) rateNamed(search, [host]);
  }
  const most = (areFew ? MOST_WITHOUT_WEIGHTS : MOST_WITH_WEIGHTS) + (search.fastest > 0 ? UNMEASURED : 0);
  for (const shelf of floor.shelves.byBudget.values()) searchShelf(search, shelf, most);
}

/** The fastest first, until the rest cannot win even with all of their memory left. */
function rateMeasured(search: Search): void {
  const { bySource, fastest, waiter, best } = search;
  for (const { cell, speed } of bySource.measured) {
    if (MOST_WITH_WEIGHTS + (MOST_FOR_SPEED * speed) / fastest + 1 < best.total) return;
    if (cell.open >= waiter.bytes || cell.nominees.has(waiter)) rate(search, cell);
  }
}

/** Along a shelf the memory score only falls, so the rest can be skipped once it cannot win. */
function searchShelf(search: Search, shelf: readonly Cell[], most: number): void {
  const { waiter, best } = search;
  const { demand } = waiter;
  const isPacking = demand.choice.spread === "None";
  const first = firstWithRoom(shelf, waiter.bytes);
  const step = isPacking ? 1 : -1;
  const bonus = isPacking ? most - MOST_WITHOUT_WEIGHTS : most;
  for (let at = isPacking ? first : shelf.length - 1; at >= first && at < shelf.length; at += step) {
    const cell = shelf[at];
    if (cell === undefined) break;
    const ceiling = bonus + rateMemory(demand, cell.facts, { claimedBytes: claimedFor(cell, waiter) });
    if (ceiling < best.total) break;
    const total = rate(search, cell);
    if (total !== undefined && total >= ceiling) break;
  }
}

function rateNamed(search: Search, names: Iterable<string>): void {
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
  const siblings = siblingsOn(floor, cell, waiter.demand);
  const total = rateHost(waiter.demand, cell.facts, contextOf(search, cell, siblings));
  const isBetter =
    best.cell === undefined || total > best.total || (total === best.total && cell.name < best.cell.name);
  if (isBetter) {
    best.cell = cell;
    best.total = total;
  }
  return total;
}

function contextOf(search: Search, cell: Cell, siblings: number): ScoreContext {
  const { waiter, fastest, bySource, bySha } = search;
  const speed = bySource.speeds.get(cell);
  const hasWeights =
    speed !== undefined ||
    bySource.unmeasured.has(cell) ||
    bySha.unmeasured.has(cell) ||
    waiter.demand.predecessors.some((one) => one.sharesWeights && one.host === cell.name);
  return { claimedBytes: claimedFor(cell, waiter), siblings, hasWeights, speed, fastest };
}

/** What is not free for it, whether claimed or promised. */
function claimedFor(cell: Cell, waiter: Waiter): number {
  const { budget } = cell.facts;
  return budget.known ? budget.bytes - roomFor(cell, waiter) : cell.claimedBytes;
}
