/** Plans for an engine that is stopping: asked to stop, killed because it serves no requests, or exited. */
import type { ErrorCode } from "../../../src/api/errors.ts";
import { backoffMs } from "../../../src/util/backoff.ts";
import type { StopMode } from "../../instances/instance.ts";
import { isAnnounced } from "../evidence/exposure.ts";
import type { ForcedStop, ObservedReplica, Stop, StopReason } from "../evidence/observed.ts";
import type { Timings } from "../evidence/timings.ts";
import type { Because, ReplicaPlan, Withdraw } from "../state/step.ts";

export type EndStep = Because &
  (
    | {
        readonly do: "beginStop";
        readonly why: StopReason;
        readonly deadlineAt: number;
        readonly latestAt?: number;
      }
    | { readonly do: "stopBy"; readonly deadlineAt: number }
    | { readonly do: "killNow" }
    | { readonly do: "recordExit" }
    | { readonly do: "forgetRun" }
  );

type Plan = ReplicaPlan<EndStep | Withdraw>;

/** The stop that the instance was asked for; undefined if none. */
export function endingOf({ run }: ObservedReplica): StopMode | undefined {
  return "ending" in run ? run.ending : undefined;
}

/** Asks the instance once to stop by its deadline, then waits for its exit. */
export function planEnding(observed: ObservedReplica, now: number, timings: Timings): Plan {
  const stop: EndStep = {
    do: "stopBy",
    deadlineAt: now + timings.stopMs,
    because: "the engine is idle, or its drain deadline has passed",
  };
  return {
    phase: "Draining",
    reason: "EndingProcess",
    message: "stopping the engine",
    steps: endingOf(observed) === undefined ? [stop] : [],
    recheckAfterMs: timings.endingMs,
  };
}

/** The status and log entry of each forced stop; `reason` is also the reason of the exit. */
export const FORCED: Record<ForcedStop, { readonly reason: ErrorCode; readonly message: string }> = {
  hung: { reason: "EngineHung", message: "the engine is hung; killing it before a new one starts" },
  neverHealthy: {
    reason: "EngineNeverHealthy",
    message: "the engine did not become healthy in time; killing it and retrying the start",
  },
  requestFailed: {
    reason: "EngineRequestFailed",
    message: "the engine failed a real request; killing it and retrying the start",
  },
  degraded: { reason: "EngineDegraded", message: "the engine fails its requests; killing and restarting it" },
};

/**
 * Withdraws and kills an engine that serves no requests. The plan waits only briefly for the withdrawal's acknowledgement:
 * during an outage of the API server a refused connection is better than one that hangs.
 */
export function planForcedStop(stop: Stop, observed: ObservedReplica, now: number, timings: Timings): Plan {
  const text = FORCED[stop.why as ForcedStop];
  const steps: (EndStep | Withdraw)[] = [];
  const announced = isAnnounced(observed.slice);
  if (announced) steps.push({ do: "withdraw", because: "the engine serves no requests" });
  const graceMs = announced ? stop.startedAt + timings.forcedWithdrawMs - now : 0;
  const message = stop.because === undefined ? text.message : `${text.message}: ${stop.because}`;
  const isKillDue = graceMs <= 0 && endingOf(observed) !== "killing";
  if (isKillDue) steps.push({ do: "killNow", because: text.message });
  return {
    phase: "Backoff",
    reason: text.reason,
    message,
    steps,
    recheckAfterMs: graceMs > 0 ? graceMs : timings.endingMs,
  };
}

export interface ForcedStopCause {
  readonly why: ForcedStop;
  readonly because: string;
}

/** The first plan of a forced stop. */
export function beginForcedStop(
  { why, because }: ForcedStopCause,
  observed: ObservedReplica,
  now: number,
  timings: Timings,
): ReplicaPlan<EndStep | Withdraw> {
  const startedAt = observed.record?.stop?.startedAt ?? now;
  const next = planForcedStop({ why, startedAt, deadlineAt: now, because }, observed, now, timings);
  const begin: EndStep = { do: "beginStop", why, deadlineAt: now, because };
  return { ...next, steps: [begin, ...next.steps] };
}

export function isForced(why: StopReason): why is ForcedStop {
  return why in FORCED;
}

/** Kills a start that has not produced a running engine in time, with every process that it may have started. */
export function planStalledStart(
  observed: ObservedReplica,
  now: number,
  timings: Timings,
): readonly EndStep[] {
  const since = observed.record?.startedAt;
  if (since === undefined || now < since + timings.shimMaxMs || endingOf(observed) === "killing") return [];
  return [{ do: "killNow", because: "the start timed out without a running engine" }];
}

/** Kills the processes that an exited engine left running. */
export function planLeftovers(observed: ObservedReplica): readonly EndStep[] {
  if (endingOf(observed) !== undefined) return [];
  return [{ do: "killNow", because: "the engine has exited, but a process that it started has not" }];
}

/** Plans for a replica that should serve and whose main process has exited. */
export function planEnded(observed: ObservedReplica, timings: Timings): Plan {
  const { record, crashes, run, slice } = observed;
  const steps: (EndStep | Withdraw)[] = [];
  if (isAnnounced(slice)) steps.push({ do: "withdraw", because: "the engine has exited" });
  const wasOurs = record?.stop !== undefined && !isForced(record.stop.why);
  const isRecorded = record === undefined || crashes.recordedRunId === record.runId || wasOurs;
  if (!isRecorded)
    steps.push({ do: "recordExit", because: "status must show the exit and the last log lines" });
  const isGone = run.at === "gone";
  if (isGone) steps.push({ do: "forgetRun", because: "no process of the engine is left" });
  else steps.push(...planLeftovers(observed));
  const exit = isRecorded ? crashes.lastExit : undefined;
  return {
    phase: "Backoff",
    reason: exit?.reason ?? (isGone ? "EngineEndUnknown" : "EndingLeftovers"),
    message: exit?.message ?? "the engine exited",
    steps,
    recheckAfterMs: isGone ? timings.shimMs : timings.endingMs,
  };
}

/** Shortens the backoff by up to a quarter, so that engines that crashed together do not restart together. */
const CRASH_JITTER = [1, 0.75] as const;

/** Backoff of a crashed engine. One crash is not a loop, whatever the engine's age. `random` is in 0..1. */
export function crashBackoffMs(timings: Timings, crashesInARow: number, random: number): number {
  const { firstRestartMs, backoffFirstMs: firstMs, backoffMaxMs: capMs } = timings;
  if (crashesInARow <= 1) return firstRestartMs;
  return backoffMs(crashesInARow - 1, { firstMs, capMs, jitter: CRASH_JITTER }, random);
}
