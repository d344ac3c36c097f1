/** Decides when a remote source must be inspected, and records the last inspection. Pure. */

import type { ErrorCode } from "../../../src/api/errors.ts";
import type { Model } from "../../../src/api/model.ts";
import type { SourceMark } from "../../../src/hub/inspect/change-marker.ts";
import type { Inspected } from "../../../src/hub/inspect/inspect.ts";

export type InspectionResult =
  | {
      readonly at: "found";
      readonly found: Inspected;
      /** Change marker of a watched source, read before and after the inspection. */
      readonly watched?:
        | {
            readonly at: "marked";
            readonly mark: SourceMark;
            readonly checkedAt: string;
            /** True if the content is the same, but the source no longer has the pinned commit. */
            readonly isPinDeleted?: boolean;
          }
        | { readonly at: "unstable" };
    }
  /** The source still has the pinned content. */
  | { readonly at: "unchanged"; readonly checkedAt: string }
  /** The source gave different content each time, so the pin stays. */
  | { readonly at: "unstable" }
  | {
      readonly at: "failed";
      readonly code: ErrorCode;
      readonly message: string;
      readonly isTransient: boolean;
      readonly retryAfterMs?: number;
    };

/** The last inspection of a Model's source, valid for one uid and generation. */
export interface InspectionRecord {
  readonly uid: string | undefined;
  readonly generation: number | undefined;
  /** Undefined before this controller's first check of a source that is already known. */
  readonly result: InspectionResult | undefined;
  /** Consecutive failures. */
  readonly failures: number;
  /** Consecutive checks that found other content than the check before, or no stable content. */
  readonly changes: number;
  /** Monotonic time; undefined if this generation needs no further inspection. */
  readonly nextAtMs: number | undefined;
  /** Resource version of the source's Secret before the inspection; undefined if there was none. */
  readonly secretVersion?: string;
}

const FIRST_RETRY_MS = 5_000;
const MAX_RETRY_MS = 600_000;
/** Delay after a permanent failure. */
const SLOW_RECHECK_MS = 600_000;
const JITTER_PART = 0.2;
/** Maximum factor by which checks are delayed for a source that changes at each check. */
const MAX_SLOWDOWN = 64;

/** Errors whose remedy is a change of the Secret. */
export const SECRET_ERRORS: ReadonlySet<string> = new Set<ErrorCode>([
  "SourceSecretInvalid",
  "SourceUnauthorized",
  "SourceForbidden",
]);

/** True while only a change of the Secret can help. The Secret is then read every few seconds, the source only after a change. */
export function waitsForSecret({ spec }: Model, last: InspectionRecord | undefined): boolean {
  return (
    spec.sourceSecretRef !== undefined && last?.result?.at === "failed" && SECRET_ERRORS.has(last.result.code)
  );
}

/** Interval between checks of a source for changes; undefined if it is not watched. */
type CheckMs = number | undefined;

/** True if this pass has to inspect the source. */
export function isInspectionDue(model: Model, last: InspectionRecord | undefined, nowMs: number): boolean {
  const current = recordFor(model, last);
  if (current !== undefined) return current.nextAtMs !== undefined && nowMs >= current.nextAtMs;
  return !isInspected(model);
}

/** The record of a watched source that an earlier controller read. A random delay spreads the first checks of many Models. */
export function firstRecord(
  model: Model,
  checkMs: CheckMs,
  nowMs: number,
  random: number,
): InspectionRecord | undefined {
  const isPinned = model.status?.pinned?.changeMarker !== undefined;
  if (checkMs === undefined || !isInspected(model)) return undefined;
  const { uid, generation } = model.metadata;
  const nextAtMs = isPinned ? nowMs + checkMs * random : nowMs;
  return { uid, generation, nextAtMs, result: undefined, failures: 0, changes: 0 };
}

/** The record, if it is for this uid and generation. */
export function recordFor(
  { metadata }: Model,
  last: InspectionRecord | undefined,
): InspectionRecord | undefined {
  return last?.uid === metadata.uid && last?.generation === metadata.generation ? last : undefined;
}

/** True if the status already has the results of an inspection, so a new leader does not repeat it. */
export function isInspected({ metadata, status }: Model): boolean {
  return (
    status !== undefined &&
    status.phase !== "Failed" &&
    status.observedGeneration === metadata.generation &&
    status.files !== undefined
  );
}

/** Records an inspection and schedules the next one. `random` in [0, 1) spreads the inspections of many Models. */
export function recordInspection(
  model: Model,
  last: InspectionRecord | undefined,
  result: InspectionResult,
  { nowMs, random, checkMs }: { readonly nowMs: number; readonly random: number; readonly checkMs?: CheckMs },
): InspectionRecord {
  const before = recordFor(model, last) ?? { failures: 0, changes: 0 };
  const failures = result.at === "failed" ? before.failures + 1 : 0;
  const changes =
    result.at === "failed" ? before.changes : hasChanged(model, result) ? before.changes + 1 : 0;
  const delay =
    result.at === "failed"
      ? retryMs(result, failures, checkMs)
      : checkMs && checkMs * Math.min(MAX_SLOWDOWN, 2 ** Math.max(0, changes - 1));
  const { uid, generation } = model.metadata;
  const nextAtMs = delay === undefined ? undefined : nowMs + delay * (1 + JITTER_PART * random);
  return { uid, generation, result, failures, changes, nextAtMs };
}

function hasChanged({ status }: Model, result: Exclude<InspectionResult, { at: "failed" }>): boolean {
  if (result.at !== "found") return result.at === "unstable";
  const pinned = status?.pinned?.changeMarker;
  if (result.watched?.at !== "marked") return result.watched?.at === "unstable";
  return pinned !== undefined && pinned !== result.watched.mark.changeMarker;
}

function retryMs(
  { isTransient, retryAfterMs }: Extract<InspectionResult, { at: "failed" }>,
  failures: number,
  checkMs: CheckMs,
): number {
  if (!isTransient) return checkMs ?? SLOW_RECHECK_MS;
  const delayMs = retryAfterMs ?? FIRST_RETRY_MS * 2 ** Math.min(failures - 1, 20);
  return Math.min(MAX_RETRY_MS, delayMs);
}
