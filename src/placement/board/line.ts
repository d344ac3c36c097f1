/** The queue for capacity: who waits, in whose turn. */
import { byTurn, refreshTurn, type Waiter } from "./waiter.ts";

export interface Line {
  readonly waiters: Map<string, Waiter>;
  /** Keys of the slots of each service. */
  readonly byService: Map<string, Set<string>>;
  /** Those without a host, in turn. */
  queue: Waiter[];
  /** Absent: the queue has changed. */
  positions: ReadonlyMap<string, number> | undefined;
  /** One string for each choice, so that comparing two of them compares no characters. */
  readonly choices: Map<string, string>;
  /** The earliest moment at which time alone changes something. */
  nextWakeMs: number;
}

export function newLine(): Line {
  const nextWakeMs = Number.POSITIVE_INFINITY;
  const positions = new Map<string, number>();
  return { waiters: new Map(), byService: new Map(), queue: [], positions, choices: new Map(), nextWakeMs };
}

export function waitersOf({ byService, waiters }: Line, service: string): Waiter[] {
  const keys = byService.get(service) ?? [];
  return [...keys]
    .flatMap((key) => waiters.get(key) ?? [])
    .sort((a, b) => a.demand.ordinal - b.demand.ordinal);
}

export function enter(line: Line, waiter: Waiter): void {
  waiter.choiceKey = line.choices.get(waiter.choiceKey) ?? waiter.choiceKey;
  line.choices.set(waiter.choiceKey, waiter.choiceKey);
  const { service } = waiter.demand;
  line.waiters.set(waiter.key, waiter);
  const keys = line.byService.get(service) ?? new Set<string>();
  line.byService.set(service, keys.add(waiter.key));
  line.nextWakeMs = Math.min(line.nextWakeMs, waiter.wakeAtMs);
  enqueue(line, waiter);
}

export function leave(line: Line, waiter: Waiter): void {
  line.waiters.delete(waiter.key);
  const keys = line.byService.get(waiter.demand.service);
  keys?.delete(waiter.key);
  if (keys?.size === 0) line.byService.delete(waiter.demand.service);
  dequeue(line, waiter);
}

/** In its turn among those without a host. */
export function enqueue(line: Line, waiter: Waiter): void {
  const { queue } = line;
  line.positions = undefined;
  let low = 0;
  let high = queue.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const there = queue[middle];
    if (there !== undefined && byTurn(there, waiter) < 0) low = middle + 1;
    else high = middle;
  }
  queue.splice(low, 0, waiter);
}

/** Those that got a host wait no longer. */
export function sweep(line: Line): void {
  const left = line.queue.filter(({ decision }) => decision.at !== "assigned");
  if (left.length === line.queue.length) return;
  line.queue = left;
  line.positions = undefined;
}

function dequeue(line: Line, waiter: Waiter): void {
  const at = line.queue.indexOf(waiter);
  if (at === -1) return;
  line.queue.splice(at, 1);
  line.positions = undefined;
}

/** Raises those who have waited long enough, and has them looked at whose refusals have ended; returns whom it woke. */
export function wake(line: Line, now: number): readonly Waiter[] {
  if (now < line.nextWakeMs) return [];
  const woken: Waiter[] = [];
  let next = Number.POSITIVE_INFINITY;
  for (const waiter of line.queue) {
    if (waiter.wakeAtMs <= now) {
      refreshTurn(waiter, now);
      woken.push(waiter);
      if (waiter.demand.refusals.length > 0) waiter.isFresh = true;
    }
    next = Math.min(next, waiter.wakeAtMs);
  }
  line.nextWakeMs = next;
  line.queue.sort(byTurn);
  line.positions = undefined;
  return woken;
}

/** Place of each service that waits, 1 being next; worked out when it is asked for. */
export function positionsOf(line: Line): ReadonlyMap<string, number> {
  if (line.positions !== undefined) return line.positions;
  const positions = new Map<string, number>();
  for (const { demand } of line.queue) {
    if (!positions.has(demand.service)) positions.set(demand.service, positions.size + 1);
  }
  line.positions = positions;
  return positions;
}
