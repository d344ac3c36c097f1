/** The last steps of a process: the signals of a drained engine, and the short way for one that answers nobody. */
import { isAnnounced } from "./evidence/exposure.ts";
import type { Observed, Stop } from "./observed.ts";
import type { ForcedStop, ReplicaPlan, ReplicaReason, Step } from "./step.ts";
import type { Timings } from "./timings.ts";

/** TERM, TERM again, KILL of the main process; repeated until it has ended. */
export function planSignals(observed: Observed, now: number, timings: Timings): ReplicaPlan {
  const { step, dueInMs } = nextSignal(observed, now, timings);
  return {
    phase: "Draining",
    reason: "EndingProcess",
    message: "the engine was told to end",
    steps: step === undefined ? [] : [step],
    recheckAfterMs: dueInMs,
  };
}

function nextSignal(
  { signals }: Observed,
  now: number,
  timings: Timings,
): { readonly step?: Step; readonly dueInMs: number } {
  const { termAt, secondTermAt, killAt } = signals;
  if (termAt === undefined) {
    return {
      step: { do: "signal", signal: "TERM", because: "it is quiet or its time is over" },
      dueInMs: timings.secondTermMs,
    };
  }
  const due = dueAt(termAt, secondTermAt, killAt, timings);
  if (now < due) return { dueInMs: due - now };
  if (secondTermAt === undefined) {
    const because = "after the first TERM it only finishes silent connections";
    return { step: { do: "signal", signal: "TERM", because }, dueInMs: timings.killAfterSecondTermMs };
  }
  return {
    step: { do: "signal", signal: "KILL", because: "it ignored both TERMs" },
    dueInMs: timings.killRepeatMs,
  };
}

function dueAt(
  termAt: number,
  secondTermAt: number | undefined,
  killAt: number | undefined,
  timings: Timings,
): number {
  if (killAt !== undefined) return killAt + timings.killRepeatMs;
  if (secondTermAt !== undefined) return secondTermAt + timings.killAfterSecondTermMs;
  return termAt + timings.secondTermMs;
}

const FORCED: Record<ForcedStop, { readonly reason: ReplicaReason; readonly message: string }> = {
  hung: {
    reason: "EngineHung",
    message: "the engine stopped working; it is ended before its successor starts",
  },
  neverHealthy: {
    reason: "EngineNeverHealthy",
    message: "the engine did not become healthy in time; it is ended and tried again",
  },
  requestFailed: {
    reason: "EngineRequestFailed",
    message: "the engine failed a real request; it is ended and tried again",
  },
  degraded: {
    reason: "EngineDegraded",
    message: "the engine fails its requests; it is ended and started again",
  },
};

/**
 * Withdraws and kills an engine that serves nobody. The withdrawal's acknowledgement is waited for only briefly:
 * through an outage of the API server a refused connection is better than a hanging one.
 */
export function planForcedStop(stop: Stop, observed: Observed, now: number, timings: Timings): ReplicaPlan {
  const text = FORCED[stop.why as ForcedStop];
  const steps: Step[] = [];
  const announced = isAnnounced(observed.slice);
  if (announced) steps.push({ do: "withdraw", because: "the engine answers nobody" });
  const patience = announced ? stop.startedAt + timings.forcedWithdrawMs - now : 0;
  const { killAt } = observed.signals;
  const killDue = killAt === undefined ? patience : Math.max(patience, killAt + timings.killRepeatMs - now);
  const message = stop.because === undefined ? text.message : `${text.message}: ${stop.because}`;
  if (killDue <= 0) steps.push({ do: "signal", signal: "KILL", because: text.message });
  return {
    phase: "Backoff",
    reason: text.reason,
    message,
    steps,
    recheckAfterMs: killDue <= 0 ? timings.killRepeatMs : killDue,
  };
}

/** A keeper that never names its process is ended with all it may have started; that is the only way to know. */
export function killSilentKeeper(observed: Observed, now: number, timings: Timings): readonly Step[] {
  const since = observed.record?.startedAt;
  if (since === undefined || now < since + timings.keeperMaxMs) return [];
  const last = observed.signals.groupKillAt;
  if (last !== undefined && now < last + timings.killRepeatMs) return [];
  return [{ do: "killGroup", because: "the keeper did not name its process" }];
}

/** KILL for what is left of the group after its main process, no more than once a second. */
export function killLeftovers(observed: Observed, now: number, timings: Timings): readonly Step[] {
  const last = observed.signals.groupKillAt;
  if (last !== undefined && now < last + timings.killRepeatMs) return [];
  return [{ do: "killGroup", because: "the main process has ended and others of its group have not" }];
}
