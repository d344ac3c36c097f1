/** The replica should end: withdraw, let every proxy see it, wait until quiet, end the process, let go of the object. */
import { isAnnounced, killLeftovers, killSilentKeeper, planForcedStop, planSignals } from "./ending.ts";
import type { Observed } from "./observed.ts";
import { type GracefulStop, isForced, type ReplicaPlan, type ReplicaReason, type Step } from "./step.ts";
import type { Timings } from "./timings.ts";

interface StopGoal {
  readonly why: GracefulStop;
  readonly drainSeconds: number;
  readonly deadlineAt?: number;
  readonly hasFinalizer: boolean;
}

const BECAUSE: Record<GracefulStop, string> = {
  deleted: "the replica is being deleted",
  drained: "spec.drain asks for it",
  unwanted: "the API server has no such replica any more",
  revision: "the running engine is of another revision",
  moved: "the host's address has changed and the engine listens on the old one",
};

/** Plans for a replica that should not run. */
export function planStop(goal: StopGoal, observed: Observed, now: number, timings: Timings): ReplicaPlan {
  const { run } = observed;
  switch (run.at) {
    case "none":
      return letGo(goal, observed, timings);
    case "gone":
      return afterEnd(
        goal,
        observed,
        [{ do: "forgetRun", because: "nothing of the engine is left" }],
        timings,
      );
    case "ended":
      return afterEnd(goal, observed, killLeftovers(observed, now, timings), timings);
    case "unreadable":
      return draining(
        "RunDirectoryUnreadable",
        `the run directory cannot be read: ${run.why}`,
        [],
        timings.outsideMs,
      );
    case "starting":
      return draining(
        "KeeperStarting",
        "the engine is only being started; it is ended as soon as it has a process",
        killSilentKeeper(observed, now, timings),
        timings.keeperMs,
      );
    case "running":
      return endRunning(goal, observed, now, timings);
    default:
      return run satisfies never;
  }
}

function endRunning(goal: StopGoal, observed: Observed, now: number, timings: Timings): ReplicaPlan {
  const stop = observed.record?.stop;
  if (stop !== undefined && isForced(stop.why)) return planForcedStop(stop, observed, now, timings);
  const startedAt = stop?.startedAt ?? now;
  const wanted = earliest(stop?.deadlineAt, goal.deadlineAt, startedAt + goal.drainSeconds * 1_000);
  const deadlineAt = Math.max(startedAt, wanted);
  const plan = drain(deadlineAt, observed, now, timings);
  if (stop !== undefined && stop.deadlineAt <= deadlineAt) return plan;
  const begin: Step = { do: "beginStop", why: goal.why, deadlineAt, because: BECAUSE[goal.why] };
  return { ...plan, steps: [begin, ...plan.steps] };
}

/** A second request to stop may shorten the time that is left, never lengthen it. */
function earliest(...times: readonly (number | undefined)[]): number {
  return Math.min(...times.filter((time) => time !== undefined));
}

function drain(deadlineAt: number, observed: Observed, now: number, timings: Timings): ReplicaPlan {
  const { slice, signals, quiet } = observed;
  if (signals.termAt !== undefined) return planSignals(observed, now, timings);
  if (isAnnounced(slice)) {
    const withdraw: Step = { do: "withdraw", because: "no new connection may reach an engine that ends" };
    return slice.lastError === undefined
      ? draining(
          "WithdrawingEndpoint",
          "taking the engine out of its Service",
          [withdraw],
          timings.endpointRetryMs,
        )
      : draining(
          "EndpointNotWithdrawn",
          `its endpoint could not be withdrawn: ${slice.lastError}`,
          [withdraw],
          timings.endpointRetryMs,
        );
  }
  if (!slice.wasExposed) return planSignals(observed, now, timings);
  const settledIn = (slice.withdrawnAt ?? now) + timings.propagationMs - now;
  if (settledIn > 0) {
    return draining("AwaitingPropagation", "waiting until every node has seen the withdrawal", [], settledIn);
  }
  const { since, lastPollAt } = quiet;
  // Quiet counts from the moment when no node sends anything new; what was seen before says nothing.
  const quietFrom = Math.max(since ?? Number.POSITIVE_INFINITY, now + settledIn);
  const isQuiet = lastPollAt !== undefined && lastPollAt - quietFrom >= timings.quietMs;
  if (isQuiet || now >= deadlineAt) return planSignals(observed, now, timings);
  const pollIn = lastPollAt === undefined ? 0 : lastPollAt + timings.quietPollMs - now;
  const poll: Step = { do: "pollQuiet", because: "requests may still be in flight" };
  const recheck = Math.max(1, Math.min(pollIn <= 0 ? timings.quietPollMs : pollIn, deadlineAt - now));
  return draining("AwaitingQuiet", "waiting for requests in flight", pollIn <= 0 ? [poll] : [], recheck);
}

function afterEnd(goal: StopGoal, observed: Observed, last: readonly Step[], timings: Timings): ReplicaPlan {
  const withdraw: Step[] = isAnnounced(observed.slice)
    ? [{ do: "withdraw", because: "the engine has ended" }]
    : [];
  const message = `the engine has ended: ${BECAUSE[goal.why]}`;
  return draining("EndingLeftovers", message, [...withdraw, ...last], timings.killRepeatMs);
}

/** Nothing runs: what is left is to let go of the weights' download, the endpoint, the files and the object. */
function letGo(goal: StopGoal, observed: Observed, timings: Timings): ReplicaPlan {
  const steps: Step[] = [];
  const { slice, model, record } = observed;
  if (model.at === "fetching") steps.push({ do: "cancelFetch", because: BECAUSE[goal.why] });
  if (record !== undefined)
    steps.push({ do: "forgetRun", because: "its reservation is not needed any more" });
  if (slice.state === "ready" || slice.state === "stale" || slice.state === "unknown") {
    steps.push({ do: "withdraw", because: "no engine runs behind the endpoint" });
    return draining(
      "WithdrawingEndpoint",
      "taking the endpoint out of its Service",
      steps,
      timings.endpointRetryMs,
    );
  }
  switch (goal.why) {
    case "deleted":
      if (!goal.hasFinalizer) return stopped("Deleted", "nothing of the engine is left", steps);
      steps.push({ do: "removeFinalizer", because: "nothing of the engine is left" });
      return {
        ...stopped("RemovingFinalizer", "nothing of the engine is left", steps),
        recheckAfterMs: timings.endpointRetryMs,
      };
    case "unwanted":
      steps.push({ do: "forgetReplica", because: BECAUSE.unwanted });
      return stopped("NotWanted", "nothing of the engine is left", steps);
    case "drained":
      return stopped(
        "Drained",
        "the engine was drained and ended; it starts again when spec.drain is removed",
        steps,
      );
    case "revision":
    case "moved":
      return { ...stopped("Drained", "the old engine has ended", steps), recheckAfterMs: 1 };
    default:
      return goal.why satisfies never;
  }
}

function draining(
  reason: ReplicaReason,
  message: string,
  steps: readonly Step[],
  recheckAfterMs: number,
): ReplicaPlan {
  return { phase: "Draining", reason, message, steps, recheckAfterMs };
}

function stopped(reason: ReplicaReason, message: string, steps: readonly Step[]): ReplicaPlan {
  return { phase: "Stopped", reason, message, steps };
}
