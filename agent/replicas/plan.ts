/** The replica's planner: from the desired state, the observed state and the time to a phase, a reason and steps. Pure and total. */
import { type EndStep, planEnded, planStalledStart } from "./end/plan.ts";
import type { Desired, DesiredState, ObservedReplica } from "./evidence/observed.ts";
import { defaultTimings, type Timings } from "./evidence/timings.ts";
import { reservationOf } from "./prepare/need.ts";
import { type PrepareStep, planPrepare } from "./prepare/plan.ts";
import { planServing, type ServeStep } from "./serve/plan.ts";
import type { ReplicaPlan, Withdraw } from "./state/step.ts";
import type { StopGoal } from "./stop/goal.ts";
import { planStop, type StopStep } from "./stop/plan.ts";

/** A step of any phase. */
export type ReplicaStep = Withdraw | PrepareStep | ServeStep | EndStep | StopStep;

type Plan = ReplicaPlan<ReplicaStep>;

const DEFAULT_DRAIN_SECONDS = 30;
const EVICTION_DRAIN_SECONDS = 2;

/** Decides the next steps of one replica. */
export function planReplica(
  desired: DesiredState,
  observed: ObservedReplica,
  now: number,
  timings: Timings = defaultTimings,
): Plan {
  const plan = planDesired(desired, observed, now, timings);
  if (observed.hasOtherClients !== true) return plan;
  // In every phase of the engine: a revoked client must not keep its connections during a drain.
  const because = "the clients that may connect have changed";
  return { ...plan, steps: [{ do: "rotateSecrets", because }, ...plan.steps] };
}

function planDesired(desired: DesiredState, observed: ObservedReplica, now: number, timings: Timings): Plan {
  if (desired === "unknown" && observed.agentStop === undefined) return awaitFirstList();
  const stop = stopGoalOf(desired, observed);
  if (stop !== undefined) return planStop(stop, observed, now, timings);
  if (typeof desired === "string") return awaitFirstList();
  return planServe(desired, observed, now, timings);
}

/** Why the replica should stop, and by when; undefined if it should serve. */
function stopGoalOf(desired: DesiredState, observed: ObservedReplica): StopGoal | undefined {
  const goal = replicaStop(desired, observed) ?? agentStop(desired, observed);
  return goal !== undefined && observed.agentStop === "immediate" ? { ...goal, drainSeconds: 0 } : goal;
}

/** The stop that the agent's exit requires; undefined while the agent keeps running. */
function agentStop(desired: DesiredState, { agentStop, record }: ObservedReplica): StopGoal | undefined {
  if (agentStop === undefined) return undefined;
  const known = typeof desired === "string" ? record?.drainSeconds : desired.drainSeconds;
  return { why: "agentStopped", drainSeconds: known ?? DEFAULT_DRAIN_SECONDS, hasFinalizer: false };
}

function replicaStop(desired: DesiredState, observed: ObservedReplica): StopGoal | undefined {
  if (desired === "unknown") return undefined;
  if (desired === "absent") {
    const drainSeconds = observed.record?.drainSeconds ?? DEFAULT_DRAIN_SECONDS;
    return { why: "unwanted", drainSeconds, hasFinalizer: false };
  }
  const { drainSeconds, hasFinalizer, probes } = desired;
  const common = { drainSeconds, hasFinalizer, probes };
  const deadlineAt = desired.drain?.deadlineAt;
  if (desired.isDeleting) return { why: "deleted", ...common, deadlineAt };
  if (desired.drain !== undefined) return { why: "drained", ...common, deadlineAt };
  if (observed.pressure.at === "evicted") return evicted(observed.pressure.how, common);
  if (isOtherRevision(desired, observed)) return { why: "revision", ...common };
  if (observed.isBoundElsewhere && observed.run.at === "running")
    return { why: "moved", ...common, isCutOff: observed.isCutOff };
  return undefined;
}

/** An idle engine is drained as usual. If its memory is needed now, it gets only the time that the withdrawal takes. */
function evicted(how: "evict" | "unload", common: Omit<StopGoal, "why">): StopGoal {
  if (how === "unload") return { why: "unloaded", ...common };
  return { why: "evicted", ...common, drainSeconds: Math.min(EVICTION_DRAIN_SECONDS, common.drainSeconds) };
}

/** Guards against a changed template, although it is immutable: the old engine is drained before a new one starts. */
function isOtherRevision(desired: Desired, observed: ObservedReplica): boolean {
  return (
    observed.run.at !== "none" &&
    observed.record !== undefined &&
    observed.record.revision !== desired.revision
  );
}

function planServe(desired: Desired, observed: ObservedReplica, now: number, timings: Timings): Plan {
  const { run } = observed;
  switch (run.at) {
    case "none":
      return planPrepare(desired, observed, now, timings);
    case "unreadable":
      return {
        phase: "Waiting",
        reason: "RunDirectoryUnreadable",
        message: `cannot read the engine's run directory: ${run.why}`,
        steps: [],
        recheckAfterMs: timings.correctionMs,
      };
    case "starting":
      if (run.isLoading === true) return planServing(desired, observed, now, timings);
      return {
        phase: "Starting",
        reason: "EngineStarting",
        message: "starting the engine",
        steps: planStalledStart(observed, now, timings),
        recheckAfterMs: timings.shimMs,
      };
    case "running":
      return withClaim(desired, observed, planServing(desired, observed, now, timings));
    case "ended":
    case "gone":
      return planEnded(observed, timings);
    default:
      return run satisfies never;
  }
}

/** Reserves a corrected claim, or a footprint above the claim, immediately and without a restart. */
function withClaim(desired: Desired, observed: ObservedReplica, plan: Plan): Plan {
  const { record } = observed;
  const claimBytes = record === undefined ? undefined : reservationOf(desired, observed, record);
  if (claimBytes === undefined || claimBytes === record?.claimBytes) return plan;
  const adjust = {
    do: "adjustClaim",
    claimBytes,
    because: "the estimate of its memory has changed",
  } as const;
  return { ...plan, steps: [adjust, ...plan.steps] };
}

function awaitFirstList(): Plan {
  return {
    phase: "Pending",
    reason: "AwaitingFirstList",
    message: "waiting for the first list of replicas; the engine is left unchanged until then",
    steps: [],
    recheckAfterMs: defaultTimings.outsideMs,
  };
}
