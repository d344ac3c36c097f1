/** Hosts that are kept free for those who have waited for long, so that small newcomers do not take every byte that comes free. */
import { holdLimit, isHoldTime } from "../priority.ts";
import { roomFor } from "./cell.ts";
import type { Floor } from "./floor.ts";
import { isAllowed } from "./search.ts";
import type { Waiter } from "./waiter.ts";

/** By the key of the waiter: the host that is kept free for it; absent where there is none that could be. */
export type Holds = Map<string, string | undefined>;

/** Keeps what still stands, lets go of the rest, and chooses for whoever is next. A host that is let go is dirty. */
export function settleHolds(floor: Floor, holds: Holds, queue: readonly Waiter[], now: number): void {
  const limit = holdLimit(floor.cells.size);
  const looked = new Set<string>();
  let held = 0;
  for (const waiter of queue) {
    if (held >= limit) break;
    if (!wantsHold(waiter, now)) continue;
    looked.add(waiter.key);
    const before = holds.get(waiter.key);
    const host = chooseHost(floor, holds, waiter, now);
    if (host !== undefined) held += 1;
    if (host === before && holds.has(waiter.key)) continue;
    release(floor, holds, waiter.key);
    hold(floor, holds, waiter, host);
  }
  for (const key of [...holds.keys()]) if (!looked.has(key)) release(floor, holds, key);
}

/** Only hosts that have changed can be nearer than what was found before. */
function chooseHost(floor: Floor, holds: Holds, waiter: Waiter, now: number): string | undefined {
  const before = holds.get(waiter.key);
  if (before !== undefined) {
    const kept = nearest(floor, waiter, now, [before, ...floor.dirty]);
    if (kept !== undefined) return kept;
  }
  const isKnown = holds.has(waiter.key) && before === undefined;
  return nearest(floor, waiter, now, isKnown ? floor.dirty : floor.cells.keys());
}

/** What serves already or takes another's place needs none. */
function wantsHold({ decision, demand, waitingSinceMs }: Waiter, now: number): boolean {
  if (decision.at !== "waiting" || demand.mayPreempt !== true || !demand.memory.known) return false;
  return isHoldTime(now - waitingSinceMs);
}

/** The host where the least is missing; only such as are large enough, and nobody else's. */
function nearest(floor: Floor, waiter: Waiter, now: number, among: Iterable<string>): string | undefined {
  let best: { host: string; missing: number } | undefined;
  for (const name of among) {
    const cell = floor.cells.get(name);
    if (cell === undefined || !cell.facts.budget.known || cell.facts.budget.bytes < waiter.bytes) continue;
    if (cell.heldFor !== undefined && cell.heldFor.key !== waiter.key) continue;
    if (!isAllowed(floor, cell, waiter, now)) continue;
    const missing = waiter.bytes - roomFor(cell, waiter);
    const isNearer =
      best === undefined || missing < best.missing || (missing === best.missing && name < best.host);
    if (isNearer) best = { host: name, missing };
  }
  return best?.host;
}

function hold(floor: Floor, holds: Holds, waiter: Waiter, host: string | undefined): void {
  holds.set(waiter.key, host);
  const cell = host === undefined ? undefined : floor.cells.get(host);
  if (cell !== undefined) cell.heldFor = waiter;
}

function release(floor: Floor, holds: Holds, key: string): void {
  const host = holds.get(key);
  holds.delete(key);
  const cell = host === undefined ? undefined : floor.cells.get(host);
  if (cell === undefined || cell.heldFor?.key !== key) return;
  cell.heldFor = undefined;
  floor.dirty.add(cell.name);
}
