/** Plans for a replica that should stop: withdraw, wait for propagation, wait until idle, stop the process, release the object. */
import {
  beginForcedStop,
  type EndStep,
  endingOf,
  isForced,
  planEnding,
  planForcedStop,
  planLeftovers,
  planStalledStart,
} from "../end/plan.ts";
import { drainEndsAt } from "../evidence/drain-time.ts";
import { isAnnounced } from "../evidence/exposure.ts";
import type { ObservedReplica, Stop } from "../evidence/observed.ts";
import type { Timings } from "../evidence/timings.ts";
import { findHang } from "../serve/failure.ts";
import { livenessProbe, type ProbeTickStep, withTickSteps } from "../serve/probe-schedule.ts";
import type { Because, ReplicaPlan, ReplicaReason, Withdraw } from "../state/step.ts";
import { type NoteWithdrawn, noteStop, STOP_MESSAGES, type StopGoal, shortenStop } from "./goal.ts";

/** Steps of a replica that should stop, in addition to those that stop its engine. */
export type StopStep =
  | NoteWithdrawn
  | (Because &
      (
        | { readonly do: "pollQuiet" }
        | { readonly do: "cancelFetch" }
        | { readonly do: "removeFinalizer" }
        | { readonly do: "forgetReplica" }
      ));

type Plan = ReplicaPlan<StopStep | EndStep | ProbeTickStep | Withdraw>;

const WITHDRAW: Withdraw = { do: "withdraw", because: "a stopping engine must not receive new connections" };

/** Plans for a replica that should not run. */
export function planStop(goal: StopGoal, observed: ObservedReplica, now: number, timings: Timings): Plan {
  const { run } = observed;
  switch (run.at) {
    case "none":
      return release(goal, observed, timings);
    case "gone":
      return afterEnd(
        goal,
        observed,
        [{ do: "forgetRun", because: "no process of the engine is left" }],
        timings,
      );
    case "ended":
      return afterEnd(goal, observed, planLeftovers(observed), timings);
    case "unreadable":
      return draining(
        "RunDirectoryUnreadable",
        `cannot read the run directory: ${run.why}`,
        [],
        timings.correctionMs,
      );
    case "starting":
      if (run.isLoading === true) return endRunning(goal, observed, now, timings);
      return draining(
        "EngineStarting",
        "the engine is still starting; it is stopped as soon as it has a process",
        planStalledStart(observed, now, timings),
        timings.shimMs,
      );
    case "running":
      return endRunning(goal, observed, now, timings);
    default:
      return run satisfies never;
  }
}

function endRunning(goal: StopGoal, observed: ObservedReplica, now: number, timings: Timings): Plan {
  const stop = observed.record?.stop;
  if (stop !== undefined && isForced(stop.why)) return planForcedStop(stop, observed, now, timings);
  const next = shortenStop(stop, goal, observed, now);
  const plan = drain(goal, next, observed, now, timings);
  // A forced stop has its own `beginStop`.
  if (plan.steps.some((step) => step.do === "beginStop")) return plan;
  const note = noteStop(stop, next, goal, plan);
  return note === undefined ? plan : { ...plan, steps: [note, ...plan.steps] };
}

function drain(goal: StopGoal, stop: Stop, observed: ObservedReplica, now: number, timings: Timings): Plan {
  if (endingOf(observed) !== undefined) return planEnding(observed, now, timings);
  // Do not wait for requests that the engine will never answer.
  const hang = findHang(observed, goal.probes, timings);
  if (hang !== undefined) return beginForcedStop(hang, observed, now, timings);
  const wait =
    awaitWithdrawal(goal, stop.startedAt, observed, now, timings) ??
    awaitQuiet(goal, stop, observed, now, timings);
  if (wait === undefined) {
    const plan = planEnding(observed, now, timings);
    return isAnnounced(observed.slice) ? { ...plan, steps: [WITHDRAW, ...plan.steps] } : plan;
  }
  if (observed.record?.readyAt === undefined) return wait;
  const probe = withTickSteps(
    livenessProbe(observed.health, goal.probes, now, timings),
    observed,
    now,
    timings,
  );
  const recheckAfterMs = Math.min(wait.recheckAfterMs ?? timings.outsideMs, probe.dueInMs);
  return { ...wait, steps: [...wait.steps, ...probe.steps], recheckAfterMs };
}

/** Waits until no new connection can arrive. Returns undefined after that. */
function awaitWithdrawal(
  goal: StopGoal,
  startedAt: number,
  { slice }: ObservedReplica,
  now: number,
  timings: Timings,
): Plan | undefined {
  if (isAnnounced(slice)) {
    if (skipsAcknowledgement(goal) && now >= startedAt + timings.goodbyeMs) return undefined;
    const { lastError } = slice;
    const reason = lastError === undefined ? "WithdrawingEndpoint" : "EndpointNotWithdrawn";
    const message =
      lastError === undefined
        ? "removing the engine from its Service"
        : `cannot withdraw the endpoint: ${lastError}`;
    return draining(reason, message, [WITHDRAW], timings.endpointRetryMs);
  }
  if (!slice.wasExposed || goal.isCutOff === true) return undefined;
  const settledIn = (slice.withdrawnAt ?? now) + timings.propagationMs - now;
  if (settledIn <= 0) return undefined;
  return draining("AwaitingPropagation", "waiting for the withdrawal to reach every node", [], settledIn);
}

/** True if the stop must not wait for the API server: the agent is about to exit, or memory is running out. */
function skipsAcknowledgement({ why }: StopGoal): boolean {
  return why === "agentStopped" || why === "evicted";
}

/** Waits until no request is in flight or the deadline has passed. Returns undefined after that. */
function awaitQuiet(
  goal: StopGoal,
  stop: Stop,
  { slice, quiet: { since, lastPollAt } }: ObservedReplica,
  now: number,
  timings: Timings,
): Plan | undefined {
  const endsAt = drainEndsAt({ ...stop, why: goal.why }, timings);
  if (!slice.wasExposed || goal.isCutOff === true || now >= endsAt) return undefined;
  // Idle time counts only after the last node has stopped sending new requests.
  const outAt = isAnnounced(slice)
    ? stop.startedAt + timings.goodbyeMs
    : (slice.withdrawnAt ?? now) + timings.propagationMs;
  const quietFrom = Math.max(since ?? Number.POSITIVE_INFINITY, outAt);
  if (lastPollAt !== undefined && lastPollAt - quietFrom >= timings.quietMs) return undefined;
  const pollIn = lastPollAt === undefined ? 0 : lastPollAt + timings.quietPollMs - now;
  const poll: StopStep = { do: "pollQuiet", because: "requests may still be in flight" };
  const recheck = Math.max(1, Math.min(pollIn <= 0 ? timings.quietPollMs : pollIn, endsAt - now));
  const message = `waiting for requests in flight: ${STOP_MESSAGES[goal.why]}`;
  return draining("AwaitingQuiet", message, pollIn <= 0 ? [poll] : [], recheck);
}

function afterEnd(
  goal: StopGoal,
  observed: ObservedReplica,
  last: readonly EndStep[],
  timings: Timings,
): Plan {
  const withdraw: Withdraw[] = isAnnounced(observed.slice)
    ? [{ do: "withdraw", because: "the engine has exited" }]
    : [];
  const message = `the engine has exited: ${STOP_MESSAGES[goal.why]}`;
  return draining("EndingLeftovers", message, [...withdraw, ...last], timings.endingMs);
}

/** Nothing is running: releases the download, the endpoint, the files and the object. */
function release(goal: StopGoal, observed: ObservedReplica, timings: Timings): Plan {
  const steps: Plan["steps"][number][] = [];
  const { slice, model, record } = observed;
  if (model.at === "fetching") steps.push({ do: "cancelFetch", because: STOP_MESSAGES[goal.why] });
  if (record !== undefined) steps.push({ do: "forgetRun", because: "its reservation is no longer needed" });
  if (slice.state === "ready" || slice.state === "stale" || slice.state === "unknown") {
    steps.push({ do: "withdraw", because: "no engine is running behind the endpoint" });
    return draining(
      "WithdrawingEndpoint",
      "removing the endpoint from its Service",
      steps,
      timings.endpointRetryMs,
    );
  }
  switch (goal.why) {
    case "deleted":
      if (!goal.hasFinalizer) return stopped("Deleted", "no process of the engine is left", steps);
      steps.push({ do: "removeFinalizer", because: "no process of the engine is left" });
      return {
        ...stopped("RemovingFinalizer", "no process of the engine is left", steps),
        recheckAfterMs: timings.endpointRetryMs,
      };
    case "unwanted":
      steps.push({ do: "forgetReplica", because: STOP_MESSAGES.unwanted });
      return stopped("NotWanted", "no process of the engine is left", steps);
    case "drained":
      return stopped(
        "Drained",
        "the engine was drained and stopped; it starts again when the drain is lifted or capacity is free",
        steps,
      );
    case "evicted":
    case "unloaded":
      return evicted(observed, steps, timings);
    case "agentStopped": {
      const message = "the agent exited and stopped its engines (--stop-engines); start the agent again";
      return stopped("AgentStopped", message, steps);
    }
    case "revision":
    case "moved":
      return { ...stopped("Drained", "the previous engine has stopped", steps), recheckAfterMs: 1 };
    default:
      return goal.why satisfies never;
  }
}

/** The governor enqueues the replica when it may start; the recheck is only a fallback. */
function evicted({ pressure }: ObservedReplica, steps: Plan["steps"], timings: Timings): Plan {
  const because = pressure.at === "evicted" ? pressure.because : "memory was short";
  const message = `the engine was stopped to free memory (${because}); it starts again when memory has recovered`;
  return { phase: "Evicted", reason: "EvictedForMemory", message, steps, recheckAfterMs: timings.outsideMs };
}

function draining(
  reason: ReplicaReason,
  message: string,
  steps: Plan["steps"],
  recheckAfterMs: number,
): Plan {
  return { phase: "Draining", reason, message, steps, recheckAfterMs };
}

function stopped(reason: ReplicaReason, message: string, steps: Plan["steps"]): Plan {
  return { phase: "Stopped", reason, message, steps };
}
