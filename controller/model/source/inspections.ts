/** When a remote source is due for inspection, and what a pass remembers of the last one. Pure. */

import type { ErrorCode } from "../../../src/api/errors.ts";
import type { Model } from "../../../src/api/model.ts";
import type { SourceMark } from "../../../src/hub/inspect/change-marker.ts";
import type { Inspected } from "../../../src/hub/inspect/inspect.ts";
import { fileNameOf, parseSource } from "../../../src/models/source/parse.ts";

export type InspectionResult =
  | {
      readonly at: "found";
      readonly found: Inspected;
      /** Of a watched source, read before and after the inspection. */
      readonly watched?:
        | {
            readonly at: "marked";
            readonly mark: SourceMark;
            readonly checkedAt: string;
            /** The same content, but the source no longer has the commit that is pinned. */
            readonly isPinGone?: boolean;
          }
        | { readonly at: "unstable" };
    }
  /** The content that is pinned. */
  | { readonly at: "unchanged"; readonly checkedAt: string }
  /** It looked different each time; what is pinned stays. */
  | { readonly at: "unstable" }
  | {
      readonly at: "failed";
      readonly code: ErrorCode;
      readonly message: string;
      readonly isTransient: boolean;
      readonly retryAfterMs?: number | undefined;
    };

/** The last inspection of one Model's source, valid for one uid and generation. */
export interface InspectionRecord {
  readonly uid: string | undefined;
  readonly generation: number | undefined;
  /** Undefined before the first check by this controller of a source that is known. */
  readonly result: InspectionResult | undefined;
  /** Failures in a row. */
  readonly failures: number;
  /** Checks in a row that found other content than the one before, or no stable content. */
  readonly changes: number;
  /** Monotonic; undefined = never again for this generation. */
  readonly nextAtMs: number | undefined;
  /** Version of the source's Secret before the inspection; undefined where there was none. */
  readonly secretVersion?: string | undefined;
}

const FIRST_RETRY_MS = 5_000;
const MAX_RETRY_MS = 600_000;
/** After a permanent failure. */
const SLOW_RECHECK_MS = 600_000;
const JITTER_PART = 0.2;
/** A source that changes at each check is checked at most so many times less often. */
const MAX_SLOWDOWN = 64;

/** Failures whose message asks for a change of the Secret. */
const OF_SECRET: ReadonlySet<string> = new Set<ErrorCode>([
  "SourceSecretInvalid",
  "SourceUnauthorized",
  "SourceForbidden",
]);

/** The Secret is read again every few seconds, and the source itself only once the Secret has changed. */
export function waitsForSecret({ spec }: Model, last: InspectionRecord | undefined): boolean {
  return (
    spec.sourceSecretRef !== undefined && last?.result?.at === "failed" && OF_SECRET.has(last.result.code)
  );
}

/** How often a source is checked for changes; undefined where it is not. */
type CheckMs = number | undefined;

/** True when this pass has to inspect the source. */
export function isInspectionDue(model: Model, last: InspectionRecord | undefined, nowMs: number): boolean {
  const current = recordFor(model, last);
  if (current !== undefined) return current.nextAtMs !== undefined && nowMs >= current.nextAtMs;
  return !isInspected(model) || isChoicePending(model);
}

/** What a new controller remembers of a watched source that an earlier one read: not all are checked at once. */
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

/** The record, if it is about this very spec. */
export function recordFor(
  { metadata }: Model,
  last: InspectionRecord | undefined,
): InspectionRecord | undefined {
  return last?.uid === metadata.uid && last?.generation === metadata.generation ? last : undefined;
}

/** The status already has what an inspection would find: a new leader does not read everything again. */
export function isInspected({ metadata, status }: Model): boolean {
  return (
    status?.phase === "Ready" &&
    status.observedGeneration === metadata.generation &&
    status.files !== undefined
  );
}

/** Resolved by a version that chose by quantization without pinning the choice for the hosts. */
function isChoicePending({ spec, status }: Model): boolean {
  const { quantization, files = [], source } = spec;
  if (quantization === undefined || files.length > 0 || status?.pinned !== undefined) return false;
  return fileNameOf(parseSource(source)) === undefined;
}

/**
 * What is remembered of an inspection, and when the next one is due. `random` in [0, 1) spreads many Models
 * apart.
 */
export function recordInspection(
  model: Model,
  last: InspectionRecord | undefined,
  result: InspectionResult,
  { nowMs, random, checkMs }: { readonly nowMs: number; readonly random: number; readonly checkMs?: CheckMs },
): InspectionRecord {
  const before = recordFor(model, last) ?? { failures: 0, changes: 0 };
  const failures = result.at === "failed" ? before.failures + 1 : 0;
  const changes = result.at === "failed" ? before.changes : isOther(model, result) ? before.changes + 1 : 0;
  const delay =
    result.at === "failed"
      ? retryMs(result, failures, checkMs)
      : checkMs && checkMs * Math.min(MAX_SLOWDOWN, 2 ** Math.max(0, changes - 1));
  const { uid, generation } = model.metadata;
  const nextAtMs = delay === undefined ? undefined : nowMs + delay * (1 + JITTER_PART * random);
  return { uid, generation, result, failures, changes, nextAtMs };
}

function isOther({ status }: Model, result: Exclude<InspectionResult, { at: "failed" }>): boolean {
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
