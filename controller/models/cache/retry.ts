/** Decides when a failed download Job is retried: after a delay, or once its claim is resized. Pure. */
import type { Job } from "../../../src/kube/workload-objects.ts";
import { ANNOTATION_CAPACITY } from "../../pods/workload/model-cache.ts";
import type { ObservedClaim } from "./watches.ts";

const FIRST_DELAY_MS = 60_000;
const MAX_DELAY_MS = 3_600_000;

export function delayAfter(attempts: number): number {
  return Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.min(attempts - 1, 20));
}

/** Remaining delay. `failedAtMs` is from another machine's clock, so the result is limited to the full delay. */
export function retryDelay(attempts: number, failedAtMs: number, nowMs: number): number {
  const delayMs = delayAfter(attempts);
  return Math.min(delayMs, failedAtMs + delayMs - nowMs);
}

/** True if the claim's capacity has changed since the Job was created. */
export function isResized(seen: ObservedClaim, { metadata }: Job): boolean {
  const before = metadata.annotations?.[ANNOTATION_CAPACITY];
  return before !== undefined && before !== claimCapacityOf(seen);
}

/** A quantity. A claim that is not bound yet usually gets the capacity that it requests. */
export function claimCapacityOf(seen: ObservedClaim): string | undefined {
  if (seen.at !== "present") return undefined;
  const { spec, status } = seen.claim;
  return status?.capacity?.storage ?? spec.resources?.requests?.storage;
}
