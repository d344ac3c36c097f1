/** Priorities as numbers, and how waiting raises them. Pure: waiting times are arguments. */
import type { Priority } from "../api/fields/shared.ts";

export const PRIORITIES: Readonly<Record<Priority, number>> = {
  critical: 1_000_000,
  high: 100_000,
  normal: 10_000,
  low: 1_000,
  batch: 100,
};

/** Classes that waiting leads through; the last one is as far as it goes: never among the critical. */
const LADDER = [PRIORITIES.batch, PRIORITIES.low, PRIORITIES.normal, PRIORITIES.high];

/** How long a service waits for its next class. */
export const AGE_STEP_MS = 30 * 60_000;
/** How long a service keeps, once it is placed, the class that it earned by waiting: nobody of that class or below takes its place. */
export const EARNED_MS = 60 * 60_000;
/** After so long a wait a host is kept free for it, then for as long not, in turns. */
export const HOLD_MS = 30 * 60_000;

/** The priority that decides on a turn: one class more for each half hour, up to high. It gives no right to preempt. */
export function agedPriority(priority: number, waitedMs: number): number {
  const at = LADDER.findIndex((step) => step >= priority);
  if (at === -1) return priority;
  const steps = Math.max(0, Math.floor(waitedMs / AGE_STEP_MS));
  const reached = LADDER[Math.min(at + steps, LADDER.length - 1)] ?? priority;
  return steps === 0 ? priority : reached;
}

/** Is it a time in which a host is kept free for a service that has waited for so long? */
export function isHoldTime(waitedMs: number): boolean {
  return Math.floor(waitedMs / HOLD_MS) % 2 === 1;
}

/** Milliseconds until waiting alone changes something: the next class, or the next turn of a hold. */
export function nextStepMs(waitedMs: number): number {
  const step = Math.min(AGE_STEP_MS, HOLD_MS);
  return step - (Math.max(0, waitedMs) % step);
}

/** How many hosts may be kept free at a time in a fleet of this size. */
export function holdLimit(hosts: number): number {
  return Math.max(1, Math.floor(hosts / 50));
}
