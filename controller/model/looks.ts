/** When to look at a remote source, and what the last look gave: what a pass remembers of earlier ones. Pure but for its map. */
import type { Model } from "../../src/api/model.ts";
import type { ErrorCode } from "../../src/errors.ts";
import type { Found } from "./remote/look.ts";

export type LookResult =
  | { readonly at: "found"; readonly found: Found }
  | {
      readonly at: "failed";
      readonly code: ErrorCode;
      readonly message: string;
      readonly isPassing: boolean;
      readonly retryAfterMs?: number | undefined;
    };

/** The last look at one Model's source, valid for one uid and generation. */
export interface LookRecord {
  readonly uid: string | undefined;
  readonly generation: number | undefined;
  readonly result: LookResult;
  /** Failures in a row. */
  readonly failures: number;
  /** Monotonic; undefined = never again for this generation. */
  readonly nextAtMs: number | undefined;
}

const FIRST_RETRY_MS = 5_000;
const MAX_RETRY_MS = 600_000;
/** After a failure that will not pass by itself, and for refreshPolicy OnChange. */
const SLOW_RECHECK_MS = 600_000;
const JITTER_PART = 0.2;

/** True when the source has to be looked at in this pass. */
export function isLookDue(model: Model, last: LookRecord | undefined, nowMs: number): boolean {
  const current = recordFor(model, last);
  if (current !== undefined) return current.nextAtMs !== undefined && nowMs >= current.nextAtMs;
  return !isKnown(model) || model.spec.refreshPolicy === "OnChange";
}

/** The record, if it is about this very spec. */
export function recordFor({ metadata }: Model, last: LookRecord | undefined): LookRecord | undefined {
  return last?.uid === metadata.uid && last?.generation === metadata.generation ? last : undefined;
}

/** The status already says what a look would: a new leader does not read everything again. */
export function isKnown({ metadata, status }: Model): boolean {
  return (
    status?.phase === "Ready" &&
    status.observedGeneration === metadata.generation &&
    status.files !== undefined
  );
}

/** What is remembered of a look, and when the next one is due. `random` in [0, 1) spreads many Models apart. */
export function recordLook(
  model: Model,
  last: LookRecord | undefined,
  result: LookResult,
  nowMs: number,
  random: number,
): LookRecord {
  const failures = result.at === "failed" ? (recordFor(model, last)?.failures ?? 0) + 1 : 0;
  const delay = nextDelayMs(model, result, failures);
  const { uid, generation } = model.metadata;
  const nextAtMs = delay === undefined ? undefined : nowMs + delay * (1 + JITTER_PART * random);
  return { uid, generation, result, failures, nextAtMs };
}

function nextDelayMs({ spec }: Model, result: LookResult, failures: number): number | undefined {
  if (result.at === "found") return spec.refreshPolicy === "OnChange" ? SLOW_RECHECK_MS : undefined;
  if (!result.isPassing) return SLOW_RECHECK_MS;
  return result.retryAfterMs ?? Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(failures - 1, 20));
}
