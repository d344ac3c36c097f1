/** Whose place a slot takes: the host where that hurts least, and there the set that hurts least. */
import type { HostClaim } from "../types.ts";
import { type Cell, defence, evictableBytes, isLeaving } from "./cell.ts";
import type { Floor } from "./floor.ts";
import { isAllowedToStay, ownBytes } from "./search.ts";
import { byTurn, type Waiter } from "./waiter.ts";

export interface Takeover {
  readonly cell: Cell;
  readonly victims: readonly HostClaim[];
  /** Nominees of lower priority that have to look elsewhere. */
  readonly overtaken: readonly Waiter[];
}

/** What a takeover costs, compared from the left: the highest priority hit, services, bytes, nominees. */
type Cost = readonly [number, number, number, number];

/** More replicas than this on one host are not tried in every combination: the largest are. */
const MOST_TRIED = 12;

/** The cheapest among these hosts; undefined where no host can be freed. Room that is on its way costs nothing. */
export function findTakeover(
  floor: Floor,
  waiter: Waiter,
  now: number,
  among: Iterable<string>,
): Takeover | undefined {
  let best: Priced | undefined;
  for (const name of among) {
    const cell = floor.cells.get(name);
    if (cell === undefined || mostRoom(cell) + ownBytes(floor, cell, waiter) < waiter.bytes) continue;
    const takeover = takeoverOn(floor, cell, waiter, now);
    if (takeover === undefined) continue;
    const priced = { takeover, cost: costOf(takeover, now) };
    if (best === undefined || isCheaper(priced, best)) best = priced;
  }
  return best?.takeover;
}

/** If everybody went who may be told to. Most hosts are out by this alone. */
export function mostRoom({ facts, claimedBytes, leavingBytes, takeableBytes }: Cell): number {
  return facts.budget.known ? facts.budget.bytes - claimedBytes + leavingBytes + takeableBytes : 0;
}

interface Priced {
  readonly takeover: Takeover;
  readonly cost: Cost;
}

function takeoverOn(floor: Floor, cell: Cell, waiter: Waiter, now: number): Takeover | undefined {
  if (!cell.facts.budget.known) return undefined;
  // A replica of the slot that waits there is what the room is for.
  const need = needOf(cell, waiter) - ownBytes(floor, cell, waiter);
  if (evictableBytes(cell, waiter.demand.priority, now) < need) return undefined;
  if (!isAllowedToStay(floor, cell, waiter, now)) return undefined;
  const victims = need > 0 ? cheapest(cell, waiter, need, now) : [];
  if (victims === undefined) return undefined;
  return { cell, victims, overtaken: overtakenBy(cell, waiter, victims) };
}

/** Bytes that are missing even when all that leaves has left and nominees that it may overtake step back. */
function needOf(cell: Cell, waiter: Waiter): number {
  const { budget } = cell.facts;
  const total = budget.known ? budget.bytes : 0;
  let reserved = 0;
  for (const nominee of cell.nominees) if (!mayOvertake(waiter, nominee)) reserved += nominee.bytes;
  return waiter.bytes - (total - cell.claimedBytes + cell.leavingBytes - reserved);
}

function mayOvertake(waiter: Waiter, nominee: Waiter): boolean {
  return nominee === waiter || nominee.demand.priority < waiter.demand.priority;
}

/** The last in turn first, and no more of them than the room asks for. */
function overtakenBy(cell: Cell, waiter: Waiter, victims: readonly HostClaim[]): readonly Waiter[] {
  const { budget } = cell.facts;
  const total = budget.known ? budget.bytes : 0;
  const freed = victims.reduce((sum, { bytes }) => sum + bytes, 0);
  const others = [...cell.nominees].filter((nominee) => nominee !== waiter);
  let room = total - cell.claimedBytes + cell.leavingBytes + freed - waiter.bytes;
  for (const nominee of others) room -= nominee.bytes;
  const overtaken: Waiter[] = [];
  for (const nominee of others.sort((a, b) => byTurn(b, a))) {
    if (room >= 0) break;
    if (!mayOvertake(waiter, nominee)) continue;
    overtaken.push(nominee);
    room += nominee.bytes;
  }
  return overtaken;
}

/** Only from the lowest priorities that suffice; there the fewest services, then the fewest bytes. */
function cheapest(cell: Cell, waiter: Waiter, need: number, now: number): readonly HostClaim[] | undefined {
  const claims = [...cell.claims.values()].filter(
    (claim) => claim.bytes > 0 && !isLeaving(cell, claim) && defence(claim, now) < waiter.demand.priority,
  );
  const steps = [...new Set(claims.map((claim) => defence(claim, now)))].sort((a, b) => a - b);
  for (const step of steps) {
    const candidates = claims.filter((claim) => defence(claim, now) <= step);
    const sum = candidates.reduce((bytes, claim) => bytes + claim.bytes, 0);
    if (sum >= need) return smallestSet(candidates, need);
  }
  return undefined;
}

function smallestSet(candidates: readonly HostClaim[], need: number): readonly HostClaim[] {
  const all = [...candidates].sort((a, b) => b.bytes - a.bytes || (a.replica < b.replica ? -1 : 1));
  const tried = all.slice(0, MOST_TRIED);
  const sum = tried.reduce((bytes, claim) => bytes + claim.bytes, 0);
  if (sum < need) return takeUntil(all, need);
  let best: { set: readonly HostClaim[]; services: number; bytes: number } | undefined;
  const visit = (
    at: number,
    set: readonly HostClaim[],
    services: number,
    bytes: number,
    left: number,
  ): void => {
    if (best !== undefined && services > best.services) return;
    if (bytes >= need) {
      if (best === undefined || services < best.services || bytes < best.bytes)
        best = { set, services, bytes };
      return;
    }
    const claim = tried[at];
    if (claim === undefined || bytes + left < need) return;
    const isKnown = set.some(({ service }) => service === claim.service);
    const rest = left - claim.bytes;
    visit(at + 1, [...set, claim], isKnown ? services : services + 1, bytes + claim.bytes, rest);
    visit(at + 1, set, services, bytes, rest);
  };
  visit(0, [], 0, 0, sum);
  return best?.set ?? tried;
}

function takeUntil(claims: readonly HostClaim[], need: number): readonly HostClaim[] {
  const set: HostClaim[] = [];
  let bytes = 0;
  for (const claim of claims) {
    if (bytes >= need) break;
    set.push(claim);
    bytes += claim.bytes;
  }
  return set;
}

function costOf({ victims, overtaken }: Takeover, now: number): Cost {
  const highest = Math.max(0, ...victims.map((claim) => defence(claim, now)));
  const services = new Set(victims.map(({ service }) => service)).size;
  const bytes = victims.reduce((sum, claim) => sum + claim.bytes, 0);
  return [highest, services, bytes, overtaken.length];
}

function isCheaper(a: Priced, b: Priced): boolean {
  for (const [index, value] of a.cost.entries()) {
    const difference = value - (b.cost[index] ?? 0);
    if (difference !== 0) return difference < 0;
  }
  return a.takeover.cell.name < b.takeover.cell.name;
}
