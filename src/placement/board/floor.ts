/** Everything the board knows of hosts: cells, shelves, and which hosts hold which weights. */
import { isDeepEqual } from "../../deep-equal.ts";
import type { HostClaim, HostFacts, HostModel, StoredWeights } from "../types.ts";
import { addClaim, type Cell, dropClaim, newCell, type Orders, settleSums } from "./cell.ts";
import { newShelves, type Shelves, shelve, unshelve } from "./shelves.ts";

export interface Floor {
  readonly cells: Map<string, Cell>;
  readonly shelves: Shelves;
  /** Names of hosts by checksum and by source of what they hold. */
  readonly holders: Map<string, Set<string>>;
  /** Tokens per second by source and host, where they were measured. */
  readonly speeds: Map<string, Map<string, number>>;
  /** Host of each claim. */
  readonly hostOf: Map<string, string>;
  readonly orders: Orders;
  /** Claims on hosts that are not known (yet). */
  readonly homeless: Map<string, HostClaim>;
  /** Ends of earned classes, and the host where that matters. */
  readonly expiries: { readonly atMs: number; readonly host: string }[];
  /** Hosts that may have more to give than at the last pass. */
  readonly dirty: Set<string>;
}

export function newFloor(): Floor {
  return {
    cells: new Map(),
    shelves: newShelves(),
    holders: new Map(),
    speeds: new Map(),
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
  if (before !== undefined) forgetModels(floor, before.facts);
  const cell = newCell(facts, before, floor.orders);
  floor.cells.set(facts.name, cell);
  for (const model of facts.models) rememberModel(floor, facts.name, model);
  if (before === undefined) adopt(floor, cell);
  touched(floor, cell);
}

/** Its claims are kept for when it comes back. */
export function removeHost(floor: Floor, name: string): void {
  const cell = floor.cells.get(name);
  if (cell === undefined) return;
  forgetModels(floor, cell.facts);
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
  if (untilMs !== undefined) floor.expiries.push({ atMs: untilMs, host: claim.host });
  touched(floor, cell);
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

/** Hosts that hold these weights. */
export function holdersOf(floor: Floor, { source, sha256 }: StoredWeights): ReadonlySet<string> {
  const bySource = floor.holders.get(source) ?? NOBODY;
  const bySha = sha256 === undefined ? NOBODY : (floor.holders.get(sha256) ?? NOBODY);
  if (bySha.size === 0) return bySource;
  return bySource.size === 0 ? bySha : new Set([...bySource, ...bySha]);
}

/** The most tokens per second that any host was measured at; 0 where none was. */
export function fastestWith(floor: Floor, { source }: StoredWeights): number {
  return Math.max(0, ...(floor.speeds.get(source)?.values() ?? []));
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
const NOBODY: ReadonlySet<string> = new Set();

function adopt(floor: Floor, cell: Cell): void {
  for (const claim of floor.homeless.values()) {
    if (claim.host !== cell.name) continue;
    floor.homeless.delete(claim.replica);
    addClaim(cell, claim);
  }
}

function rememberModel(floor: Floor, host: string, { source, sha256, tokensPerSecond }: HostModel): void {
  for (const key of sha256 === undefined ? [source] : [source, sha256]) {
    const holders = floor.holders.get(key) ?? new Set<string>();
    floor.holders.set(key, holders.add(host));
  }
  if (tokensPerSecond === undefined) return;
  const speeds = floor.speeds.get(source) ?? new Map<string, number>();
  floor.speeds.set(source, speeds.set(host, tokensPerSecond));
}

function forgetModels(floor: Floor, { name, models }: HostFacts): void {
  for (const { source, sha256 } of models) {
    for (const key of sha256 === undefined ? [source] : [source, sha256]) {
      const holders = floor.holders.get(key);
      holders?.delete(name);
      if (holders?.size === 0) floor.holders.delete(key);
    }
    const speeds = floor.speeds.get(source);
    speeds?.delete(name);
    if (speeds?.size === 0) floor.speeds.delete(source);
  }
}
