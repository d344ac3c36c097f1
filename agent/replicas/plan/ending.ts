/** Engines on their way out: asked to stop, killed because they answer no request, or exited. */
import { isAnnounced } from "./evidence/exposure.ts";
import type { Ending, Observed, Stop } from "./observed.ts";
import {
  type Because,
  type ForcedStop,
  isForced,
  type ReplicaPlan,
  type ReplicaReason,
  type StopReason,
  type Withdraw,
} from "./step.ts";
import type { Timings } from "./timings.ts";

export type EndStep = Because &
  (
    | {
        readonly do: "beginStop";
        readonly why: StopReason;
        readonly deadlineAt: number;
        readonly latestAt?: number;
      }
    | { readonly do: "stopBy"; readonly deadlineAt: number }
    | { readonly do: "endNow" }
    | { readonly do: "recordExit" }
    | { readonly do: "forgetRun" }
  );

type Plan = ReplicaPlan<EndStep | Withdraw>;

/** What was asked of the instance; undefined while nothing was. */
export function endingOf({ run }: Observed): Ending | undefined {
  return "ending" in run ? run.ending : undefined;
}

/** The instance stops by its deadline, more firmly as that comes; until then it is only waited for. */
export function planEnding(observed: Observed, now: number, timings: Timings): Plan {
  const stop: EndStep = {
    do: "stopBy",
    deadlineAt: now + timings.stopMs,
    because: "it is idle, or its time to drain has elapsed",
  };
  return {
    phase: "Draining",
    reason: "EndingProcess",
    message: "stopping the engine",
    steps: endingOf(observed) === undefined ? [stop] : [],
    recheckAfterMs: timings.endingMs,
  };
}

const FORCED: Record<ForcedStop, { readonly reason: ReplicaReason; readonly message: string }> = {
  hung: {
    reason: "EngineHung",
    message: "the engine is hung; it is killed before its successor starts",
  },
  neverHealthy: {
    reason: "EngineNeverHealthy",
    message: "the engine did not become healthy in time; it is killed, and the start is retried",
  },
  requestFailed: {
    reason: "EngineRequestFailed",
    message: "the engine failed a real request; it is killed, and the start is retried",
  },
  degraded: {
    reason: "EngineDegraded",
    message: "the engine fails its requests; it is killed and restarted",
  },
};

/**
 * Withdraws and kills an engine that answers no request. The withdrawal's acknowledgement is waited for only briefly:
 * through an outage of the API server a refused connection is better than a hanging one.
 */
export function planForcedStop(stop: Stop, observed: Observed, now: number, timings: Timings): Plan {
  const text = FORCED[stop.why as ForcedStop];
  const steps: (EndStep | Withdraw)[] = [];
  const announced = isAnnounced(observed.slice);
  if (announced) steps.push({ do: "withdraw", because: "the engine answers no request" });
  const patience = announced ? stop.startedAt + timings.forcedWithdrawMs - now : 0;
  const message = stop.because === undefined ? text.message : `${text.message}: ${stop.because}`;
  const isKillDue = patience <= 0 && endingOf(observed) !== "killing";
  if (isKillDue) steps.push({ do: "endNow", because: text.message });
  return {
    phase: "Backoff",
    reason: text.reason,
    message,
    steps,
    recheckAfterMs: patience > 0 ? patience : timings.endingMs,
  };
}

/** A launch that never becomes a running engine is ended with all it may have started; nothing else is certain. */
export function endSilentStart(observed: Observed, now: number, timings: Timings): readonly EndStep[] {
  const since = observed.record?.startedAt;
  if (since === undefined || now < since + timings.shimMaxMs || endingOf(observed) === "killing") return [];
  return [{ do: "endNow", because: "the start has not led to a running engine" }];
}

/** What is left of an engine that has exited. */
export function endLeftovers(observed: Observed): readonly EndStep[] {
  if (endingOf(observed) !== undefined) return [];
  return [{ do: "endNow", because: "the engine has exited and something that it started has not" }];
}

/** Plans for a wanted replica whose main process has exited. */
export function planEnded(observed: Observed, timings: Timings): Plan {
  const { record, crashes, run, slice } = observed;
  const steps: (EndStep | Withdraw)[] = [];
  if (isAnnounced(slice)) steps.push({ do: "withdraw", because: "the engine has exited" });
  const wasOurs = record?.stop !== undefined && !isForced(record.stop.why);
  const isRecorded = record === undefined || crashes.recordedRunId === record.runId || wasOurs;
  if (!isRecorded) steps.push({ do: "recordExit", because: "its exit and last log lines belong in status" });
  const isGone = run.at === "gone";
  if (isGone) steps.push({ do: "forgetRun", because: "nothing of the engine is left" });
  else steps.push(...endLeftovers(observed));
  const exit = isRecorded ? crashes.lastExit : undefined;
  return {
    phase: "Backoff",
    reason: exit?.reason ?? (isGone ? "EngineEndUnknown" : "EndingLeftovers"),
    message: exit?.message ?? "the engine exited",
    steps,
    recheckAfterMs: isGone ? timings.shimMs : timings.endingMs,
  };
}
