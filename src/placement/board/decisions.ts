/** Taking and undoing decisions, and the demands that call for them. Every change of room is told to the shelves. */
import type { Demand, Placed, Preemption } from "../types.ts";
import { addClaim, type Cell, dropClaim, settleOpen } from "./cell.ts";
import { type Floor, order, touched } from "./floor.ts";
import type { Holds } from "./holds.ts";
import { enqueue, enter, type Line, leave, waitersOf } from "./line.ts";
import type { Takeover } from "./preempt.ts";
import { shelve } from "./shelves.ts";
import { asksTheSame, byTurn, newWaiter, type Waiter } from "./waiter.ts";

export interface Table {
  readonly floor: Floor;
  readonly line: Line;
  readonly holds: Holds;
}

/** Demands that ask for the same as before keep what was decided. True when the queue is another. */
export function setDemands(table: Table, service: string, demands: readonly Demand[], now: number): boolean {
  const before = new Map(waitersOf(table.line, service).map((waiter) => [waiter.key, waiter]));
  let changed = false;
  for (const demand of demands) {
    const fresh = newWaiter(demand, now);
    const known = before.get(fresh.key);
    before.delete(fresh.key);
    if (known !== undefined && isSame(known, fresh)) {
      known.demand = demand;
      continue;
    }
    changed = true;
    if (known !== undefined) remove(table, known);
    enter(table.line, fresh);
  }
  for (const waiter of before.values()) {
    if (waiter.decision.at !== "assigned") changed = true;
    remove(table, waiter);
  }
  return changed;
}

/** Room is taken at once, in the slot's name, until the replica itself is on the board. The queue is swept afterwards. */
export function assign({ floor, line }: Table, waiter: Waiter, placed: Placed): void {
  const cell = floor.cells.get(placed.host);
  if (cell === undefined) return;
  withdraw({ floor, line }, waiter);
  waiter.decision = { at: "assigned", placed };
  const { service } = waiter.demand;
  addClaim(cell, { replica: claimName(waiter), service, host: cell.name, bytes: waiter.bytes });
  shelve(floor.shelves, cell);
}

export function nominate(
  { floor, line }: Table,
  waiter: Waiter,
  { cell, victims, overtaken }: Takeover,
): Preemption[] {
  for (const other of overtaken) {
    withdraw({ floor, line }, other);
    other.isFresh = true;
  }
  const names = victims.map(({ replica }) => replica);
  waiter.decision = { at: "nominated", host: cell.name, victims: names };
  cell.nominees.add(waiter);
  for (const replica of names) order(floor, cell, replica, waiter.key);
  reopen(floor, cell);
  return victims.map(({ replica, service }) => ({ replica, service, host: cell.name, for: waiter.key }));
}

/** Back to waiting. Who was told to make way and has not begun may stay. */
export function withdraw({ floor, line }: Pick<Table, "floor" | "line">, waiter: Waiter): void {
  const { decision } = waiter;
  waiter.decision = { at: "waiting" };
  switch (decision.at) {
    case "waiting":
      return;
    case "nominated": {
      const cell = floor.cells.get(decision.host);
      if (cell === undefined) return;
      cell.nominees.delete(waiter);
      for (const replica of decision.victims)
        if (floor.orders.get(replica) === waiter.key) order(floor, cell, replica, undefined);
      reopen(floor, cell);
      floor.dirty.add(cell.name);
      return;
    }
    case "assigned": {
      const cell = floor.cells.get(decision.placed.host);
      if (cell !== undefined) {
        dropClaim(cell, claimName(waiter));
        touched(floor, cell);
      }
      floor.homeless.delete(claimName(waiter));
      if (line.waiters.has(waiter.key)) enqueue(line, waiter);
      return;
    }
    default:
      decision satisfies never;
  }
}

function remove({ floor, line }: Table, waiter: Waiter): void {
  leave(line, waiter);
  withdraw({ floor, line }, waiter);
}

/** A decision stands while it is for the same thing; a turn that moved is a new turn. */
function isSame(known: Waiter, fresh: Waiter): boolean {
  if (!asksTheSame(known.demand, fresh.demand)) return false;
  return known.decision.at === "assigned" || byTurn(known, { ...fresh, effective: known.effective }) === 0;
}

function reopen(floor: Floor, cell: Cell): void {
  settleOpen(cell);
  shelve(floor.shelves, cell);
}

/** No replica is called so: names have no blanks. */
function claimName({ key }: Waiter): string {
  return `slot ${key}`;
}
