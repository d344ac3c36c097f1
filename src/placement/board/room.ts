/** Whether ending some replicas would give a slot a host. Only a question: nothing changes, and nobody makes way. */
import type { Demand } from "../types.ts";
import { type Cell, isLeaving, roomFor } from "./cell.ts";
import type { Floor } from "./floor.ts";
import { isAllowed } from "./search.ts";
import { byTurn, newWaiter, type Waiter } from "./waiter.ts";

/** `without`: `namespace/name` of the replicas that would go. What whoever is before it in turn would take first is no room. */
export function hasRoom(
  floor: Floor,
  queue: readonly Waiter[],
  demand: Demand,
  without: readonly string[],
  now: number,
): boolean {
  const waiter = newWaiter(demand, now);
  const gone = new Set(without);
  const touched = new Set(without.map((replica) => floor.hostOf.get(replica)));
  const before = queue.filter((other) => isBefore(other, waiter));
  for (const cell of floor.cells.values()) {
    const isTouched = touched.has(cell.name);
    const freed = isTouched ? cellWithout(cell, gone) : cell;
    const taken = isTouched ? takenFirst(floor, freed, before, now) : 0;
    if (demand.memory.known && roomFor(freed, waiter) - taken < waiter.bytes) continue;
    if (isAllowed(floor, cell, waiter, now)) return true;
  }
  return false;
}

function isBefore(other: Waiter, waiter: Waiter): boolean {
  if (other.key === waiter.key || other.decision.at === "nominated") return false;
  return other.demand.priority >= waiter.demand.priority && byTurn(other, waiter) < 0;
}

/** Bytes that those before would have of a host, in turn. */
function takenFirst(floor: Floor, freed: Cell, before: readonly Waiter[], now: number): number {
  let taken = 0;
  for (const other of before) {
    if (roomFor(freed, other) - taken >= other.bytes && isAllowed(floor, freed, other, now))
      taken += other.bytes;
  }
  return taken;
}

function cellWithout(cell: Cell, gone: ReadonlySet<string>): Cell {
  let { claimedBytes, leavingBytes } = cell;
  for (const claim of cell.claims.values()) {
    if (!gone.has(claim.replica)) continue;
    claimedBytes -= claim.bytes;
    if (isLeaving(cell, claim)) leavingBytes -= claim.bytes;
  }
  return { ...cell, claimedBytes, leavingBytes };
}
