/** What ended and may not be started again yet, or not as it was: its backoff, and another engine or other weights looked for. Pure. */
import type { Hopeless, Observed, RuntimeState } from "./observed.ts";
import type { ReplicaPlan, Step } from "./step.ts";
import type { Timings } from "./timings.ts";
import { isStillHopeless } from "./verdicts.ts";

export function heldBack(observed: Observed, now: number, timings: Timings): ReplicaPlan | undefined {
  const { crashes, runtime, model } = observed;
  const exit = crashes.lastExit;
  const { hopeless } = crashes;
  if (hopeless !== undefined && exit !== undefined && isStillHopeless(hopeless, runtime, model)) {
    return {
      phase: "Failed",
      reason: exit.reason,
      message: exit.message,
      steps: looksForAnother(hopeless, observed, now, timings),
      recheckAfterMs: timings.outsideMs,
    };
  }
  if (crashes.backoffUntil === undefined || now >= crashes.backoffUntil) return undefined;
  return {
    phase: "Backoff",
    reason: exit?.reason ?? "EngineEndUnknown",
    message: exit?.message ?? "the engine ended",
    steps: [],
    recheckAfterMs: crashes.backoffUntil - now,
    nextTryAt: crashes.backoffUntil,
  };
}

/** Another runtime or other weights may work where these did not. Files on disk are watched; only sources are asked. */
function looksForAnother(
  { askedAt }: Hopeless,
  { runtime, model }: Observed,
  now: number,
  timings: Timings,
): Step[] {
  const isAskDue = askedAt !== undefined && now >= askedAt + timings.fetchRetryMaxMs;
  // A wrong checksum comes at the end of a download: that is not repeated. All else fails at its beginning.
  const isRetryDue = model.at === "failed" && model.code !== "ChecksumMismatch" && now >= model.retryAt;
  const isFetchDue =
    model.at === "absent" || isRetryDue || (model.at === "stored" && (model.isReplaced === true || isAskDue));
  const fetch: Step = { do: "fetch", because: "the weights may have been corrected" };
  return [...detectAgain(runtime, now, timings), ...(isFetchDue ? [fetch] : [])];
}

/** An engine that was upgraded may take what the one before did not. */
export function detectAgain(runtime: RuntimeState, now: number, timings: Timings): Step[] {
  const isDue =
    runtime.at === "unknown" || ("checkedAt" in runtime && now >= runtime.checkedAt + timings.outsideMs);
  return isDue ? [{ do: "detectRuntime", because: "another version of the engine may accept it" }] : [];
}
