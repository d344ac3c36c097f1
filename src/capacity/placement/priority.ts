/** Priorities as numbers, and how waiting raises them. Pure: waiting times are arguments. */
import type { Priority } from "../../api/fields/shared.ts";

export const PRIORITIES: Readonly<Record<Priority, number>> = {
  critical: 1_000_000,
  high: 100_000,
  normal: 10_000,
  low: 1_000,
  batch: 100,
};

/** Classes that waiting raises a service through; the last one is the limit: never critical. */
const LADDER = [PRIORITIES.batch, PRIORITIES.low, PRIORITIES.normal, PRIORITIES.high];

/** How long a service waits for its next class. */
export const AGE_STEP_MS = 30 * 60_000;
/** How long a placed service keeps the class it earned by waiting: no service of that class or below preempts it. */
export const EARNED_MS = 60 * 60_000;
/** After this much waiting a host is reserved for it, then for as long not, alternately. */
export const HOLD_MS = 30 * 60_000;

/** The priority that orders the queue: one class more for each half hour, up to high. It gives no right to preempt. */
export function agedPriority(priority: number, waitedMs: number): number {
  const at = LADDER.findIndex((step) => step >= priority);
  if (at === -1) return priority;
  const steps = Math.max(0, Math.floor(waitedMs / AGE_STEP_MS));
  const reached = LADDER[Math.min(at + steps, LADDER.length - 1)] ?? priority;
  return steps === 0 ? priority : reached;
}

/** True while a host is reserved for a service that has waited `waitedMs`. */
export function isHoldTime(waitedMs: number): boolean {
  return Math.floor(waitedMs / HOLD_MS) % 2 === 1;
}

/** Milliseconds until waiting alone changes something: the next class, or the start or end of a reservation. */
export function nextStepMs(waitedMs: number): number {
  const step = Math.min(AGE_STEP_MS, HOLD_MS);
  return step - (Math.max(0, waitedMs) % step);
}

/** How many hosts may be reserved at a time in a fleet of this size. */
export function holdLimit(hosts: number): number {
  return Math.max(1, Math.floor(hosts / 50));
}
