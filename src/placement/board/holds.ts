/** Hosts that are kept free for those who have waited for long, so that small newcomers do not take every byte that comes free. */
import { holdLimit, isHoldTime } from "../priority.ts";
import { roomFor } from "./cell.ts";
import type { Floor } from "./floor.ts";
import { isAllowed } from "./search.ts";
import type { Waiter } from "./waiter.ts";

/** Host by the key of the waiter that it is kept free for. */
export type Holds = Map<string, { readonly waiter: Waiter; readonly host: string }>;

/** Keeps what still stands, lets go of the rest, and chooses for whoever is next. A host that is let go is dirty. */
export function settleHolds(floor: Floor, holds: Holds, queue: readonly Waiter[], now: number): void {
  const wanting = firstWanting(queue, holdLimit(floor.cells.size), now);
  const keys = new Set(wanting.map(({ key }) => key));
  for (const key of [...holds.keys()]) if (!keys.has(key)) release(floor, holds, key);
  for (const waiter of wanting) {
    const before = holds.get(waiter.key)?.host;
    const host = chooseHost(floor, waiter, before, now);
    if (host === before) continue;
    release(floor, holds, waiter.key);
    if (host !== undefined) hold(floor, holds, waiter, host);
  }
}

function firstWanting(queue: readonly Waiter[], limit: number, now: number): readonly Waiter[] {
  const wanting: Waiter[] = [];
  for (const waiter of queue) {
    if (wanting.length >= limit) break;
    if (wantsHold(waiter, now)) wanting.push(waiter);
  }
  return wanting;
}

/** Only hosts that have changed can be nearer than the one that is held. */
function chooseHost(
  floor: Floor,
  waiter: Waiter,
  before: string | undefined,
  now: number,
): string | undefined {
  const kept = before === undefined ? undefined : nearest(floor, waiter, now, [before, ...floor.dirty]);
  return kept ?? nearest(floor, waiter, now, floor.cells.keys());
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

function hold(floor: Floor, holds: Holds, waiter: Waiter, host: string): void {
  holds.set(waiter.key, { waiter, host });
  const cell = floor.cells.get(host);
  if (cell !== undefined) cell.heldFor = waiter;
}

function release(floor: Floor, holds: Holds, key: string): void {
  const host = holds.get(key)?.host;
  holds.delete(key);
  const cell = host === undefined ? undefined : floor.cells.get(host);
  if (cell === undefined || cell.heldFor?.key !== key) return;
  cell.heldFor = undefined;
  floor.dirty.add(cell.name);
}
