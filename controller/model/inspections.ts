/** When a remote source is due for inspection, and what a pass remembers of the last one. Pure. */

import type { ErrorCode } from "../../src/api/errors.ts";
import type { Model } from "../../src/api/model.ts";
import type { Inspected } from "../../src/hub/inspect.ts";
import { fileNameOf, parseSource } from "../../src/models/source/source.ts";

export type InspectionResult =
  | { readonly at: "found"; readonly found: Inspected }
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
  readonly result: InspectionResult;
  /** Failures in a row. */
  readonly failures: number;
  /** Monotonic; undefined = never again for this generation. */
  readonly nextAtMs: number | undefined;
}

const FIRST_RETRY_MS = 5_000;
const MAX_RETRY_MS = 600_000;
/** After a permanent failure, and for refreshPolicy OnChange. */
const SLOW_RECHECK_MS = 600_000;
const JITTER_PART = 0.2;

/** True when this pass has to inspect the source. */
export function isInspectionDue(model: Model, last: InspectionRecord | undefined, nowMs: number): boolean {
  const current = recordFor(model, last);
  if (current !== undefined) return current.nextAtMs !== undefined && nowMs >= current.nextAtMs;
  return !isKnown(model) || model.spec.refreshPolicy === "OnChange" || isChoicePending(model);
}

/** The record, if it is about this very spec. */
export function recordFor(
  { metadata }: Model,
  last: InspectionRecord | undefined,
): InspectionRecord | undefined {
  return last?.uid === metadata.uid && last?.generation === metadata.generation ? last : undefined;
}

/** The status already has what an inspection would find: a new leader does not read everything again. */
export function isKnown({ metadata, status }: Model): boolean {
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
  nowMs: number,
  random: number,
): InspectionRecord {
  const failures = result.at === "failed" ? (recordFor(model, last)?.failures ?? 0) + 1 : 0;
  const delay = nextDelayMs(model, result, failures);
  const { uid, generation } = model.metadata;
  const nextAtMs = delay === undefined ? undefined : nowMs + delay * (1 + JITTER_PART * random);
  return { uid, generation, result, failures, nextAtMs };
}

function nextDelayMs({ spec }: Model, result: InspectionResult, failures: number): number | undefined {
  if (result.at === "found") return spec.refreshPolicy === "OnChange" ? SLOW_RECHECK_MS : undefined;
  if (!result.isTransient) return SLOW_RECHECK_MS;
  return result.retryAfterMs ?? Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(failures - 1, 20));
}
