/** When a failed download Job is retried: after its delay, or once its claim has another size. Pure. */
import type { Job } from "../../../src/kube/workload-objects.ts";
import { ANNOTATION_CAPACITY } from "../../workload/model-cache.ts";
import type { ObservedClaim } from "./watches.ts";

const FIRST_DELAY_MS = 60_000;
const MAX_DELAY_MS = 3_600_000;

export function delayAfter(attempts: number): number {
  return Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.min(attempts - 1, 20));
}

/** What is left of the delay. By another machine's clock: never longer than the delay itself. */
export function retryDelay(attempts: number, failedAtMs: number, nowMs: number): number {
  const delayMs = delayAfter(attempts);
  return Math.min(delayMs, failedAtMs + delayMs - nowMs);
}

/** Since the Job was made. */
export function isResized(seen: ObservedClaim, { metadata }: Job): boolean {
  const before = metadata.annotations?.[ANNOTATION_CAPACITY];
  return before !== undefined && before !== claimCapacityOf(seen);
}

/** Quantity. A claim that is bound later has mostly what it asked for. */
export function claimCapacityOf(seen: ObservedClaim): string | undefined {
  if (seen.at !== "present") return undefined;
  const { spec, status } = seen.claim;
  return status?.capacity?.storage ?? spec.resources?.requests?.storage;
}
