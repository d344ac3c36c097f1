/** Priorities as numbers, and their increase with the waiting time. Pure. */
import type { Priority } from "../../api/fields/shared.ts";

export const PRIORITIES: Readonly<Record<Priority, number>> = {
  critical: 1_000_000,
  high: 100_000,
  normal: 10_000,
  low: 1_000,
  batch: 100,
};

/** Priority classes through which a waiting service rises. The last one is the limit, so none becomes critical. */
const LADDER = [PRIORITIES.batch, PRIORITIES.low, PRIORITIES.normal, PRIORITIES.high];

const UNUSED_SCALE_MS = 1e9;

/** Priority of replicas that may be unloaded, from 0 to 1: below every class, and the least recently used first. */
export function unusedPriority(unusedSinceMs: number): number {
  return unusedSinceMs / (unusedSinceMs + UNUSED_SCALE_MS);
}

/** Priority of replicas whose turn has finished: below every class, and above all replicas that are not used. */
export const TURN_PRIORITY = 1;

/** Waiting time until the next class. */
const AGE_STEP_MS = 30 * 60_000;
/** Time for which a placed service keeps the class that it earned by waiting: no service of that class or below preempts it. */
export const EARNED_MS = 60 * 60_000;
/** Waiting time after which a host is reserved for a service. Times with and without a reservation of this length alternate. */
const HOLD_MS = 30 * 60_000;

/** Priority in the queue: one class higher for each 30 minutes, up to high. It gives no right to preempt. */
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

/** Milliseconds until the waiting time changes something: the class, or the start or end of a reservation. */
export function nextStepMs(waitedMs: number): number {
  const step = Math.min(AGE_STEP_MS, HOLD_MS);
  return step - (Math.max(0, waitedMs) % step);
}

/** Maximum number of reserved hosts in a fleet of this size. */
export function holdLimit(hosts: number): number {
  return Math.max(1, Math.floor(hosts / 50));
}
