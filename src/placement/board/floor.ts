/** Everything the board knows of hosts: cells, shelves, and which hosts hold which weights. */
import { isDeepEqual } from "../../deep-equal.ts";
import type { HostClaim, HostFacts } from "../types.ts";
import { addClaim, type Cell, dropClaim, newCell, type Orders, setFacts, settleSums } from "./cell.ts";
import { type Holders, noteModels } from "./holders.ts";
import { newShelves, type Shelves, shelve, unshelve } from "./shelves.ts";

export interface Floor {
  readonly cells: Map<string, Cell>;
  readonly shelves: Shelves;
  /** Who holds which weights, by source and by checksum. */
  readonly holders: Map<string, Holders>;
  /** Host of each claim. */
  readonly hostOf: Map<string, string>;
  readonly orders: Orders;
  /** Claims on hosts that are not known (yet). */
  readonly homeless: Map<string, HostClaim>;
  /** Ends of earned classes, and the host where that matters; the next one first. */
  readonly expiries: { readonly atMs: number; readonly host: string }[];
  /** Hosts that may have more to give than at the last pass. */
  readonly dirty: Set<string>;
}

export function newFloor(): Floor {
  return {
    cells: new Map(),
    shelves: newShelves(),
    holders: new Map(),
    hostOf: new Map(),
    orders: new Map(),
    homeless: new Map(),
    expiries: [],
    dirty: new Set(),
  };
}

export function putHost(floor: Floor, facts: HostFacts): void {
  const before = floor.cells.get(facts.name);
  if (before !== undefined && isDeepEqual(before.facts, facts)) return;
  const cell = before ?? newCell(facts, floor.orders);
  noteModels(floor.holders, cell, before?.facts.models ?? [], facts.models);
  setFacts(cell, facts);
  if (before === undefined) {
    floor.cells.set(facts.name, cell);
    adopt(floor, cell);
  }
  touched(floor, cell);
}

/** Its claims are kept for when it comes back. */
export function removeHost(floor: Floor, name: string): void {
  const cell = floor.cells.get(name);
  if (cell === undefined) return;
  noteModels(floor.holders, cell, cell.facts.models, []);
  floor.cells.delete(name);
  unshelve(floor.shelves, name);
  for (const claim of cell.claims.values()) floor.homeless.set(claim.replica, claim);
  floor.dirty.add(name);
}

export function putClaim(floor: Floor, claim: HostClaim): void {
  const known = floor.cells.get(claim.host)?.claims.get(claim.replica);
  if (known !== undefined && isSameClaim(known, claim)) return;
  const hostBefore = floor.hostOf.get(claim.replica);
  if (hostBefore !== undefined && hostBefore !== claim.host) removeClaim(floor, claim.replica);
  floor.hostOf.set(claim.replica, claim.host);
  const cell = floor.cells.get(claim.host);
  if (cell === undefined) {
    floor.homeless.set(claim.replica, claim);
    return;
  }
  addClaim(cell, claim);
  const untilMs = claim.eviction?.earned?.untilMs;
  if (untilMs !== undefined) noteExpiry(floor, { atMs: untilMs, host: claim.host });
  touched(floor, cell);
}

/** From the end: what is earned later ends later, nearly always. */
function noteExpiry({ expiries }: Floor, expiry: Floor["expiries"][number]): void {
  const before = expiries.findLastIndex(({ atMs }) => atMs <= expiry.atMs);
  expiries.splice(before + 1, 0, expiry);
}

export function removeClaim(floor: Floor, replica: string): void {
  const host = floor.hostOf.get(replica);
  if (host === undefined) return;
  floor.hostOf.delete(replica);
  floor.homeless.delete(replica);
  floor.orders.delete(replica);
  const cell = floor.cells.get(host);
  if (cell === undefined) return;
  dropClaim(cell, replica);
  touched(floor, cell);
}

/** A replica is told, or told no more, to make way for a slot. */
export function order(floor: Floor, cell: Cell, replica: string, slot: string | undefined): void {
  if (slot === undefined) floor.orders.delete(replica);
  else floor.orders.set(replica, slot);
  settleSums(cell);
  shelve(floor.shelves, cell);
}

/** To be called after every change of a cell. */
export function touched(floor: Floor, cell: Cell): void {
  shelve(floor.shelves, cell);
  floor.dirty.add(cell.name);
}

/** A clock that was read a moment later changes nothing. */
function isSameClaim(a: HostClaim, b: HostClaim): boolean {
  const untilA = a.eviction?.earned?.untilMs ?? 0;
  const untilB = b.eviction?.earned?.untilMs ?? 0;
  return Math.abs(untilA - untilB) < CLOCK_MS && isDeepEqual(withoutTime(a), withoutTime(b));
}

function withoutTime({ eviction, ...rest }: HostClaim): object {
  return { ...rest, priority: eviction?.priority, earned: eviction?.earned?.priority };
}

const CLOCK_MS = 5_000;

function adopt(floor: Floor, cell: Cell): void {
  for (const claim of floor.homeless.values()) {
    if (claim.host !== cell.name) continue;
    floor.homeless.delete(claim.replica);
    addClaim(cell, claim);
  }
}
