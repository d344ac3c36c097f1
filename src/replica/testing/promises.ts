/** What no plan may ever do; each check throws with the promise that was broken. */
import type { Observed, SliceState, Stop } from "../observed.ts";
import { type ForcedStop, isForced, type ReplicaPlan } from "../step.ts";
import { defaultTimings } from "../timings.ts";
import type { Engine } from "./engine.ts";

/** Every plan says why, and when to look again. */
export function checkPlan(plan: ReplicaPlan): void {
  if (plan.message === "" || plan.reason.length === 0) throw new Error("a plan without a reason");
  if (plan.phase === "Stopped") return;
  if (plan.recheckAfterMs === undefined || !(plan.recheckAfterMs > 0)) {
    throw new Error(`${plan.phase} without a wake-up time: ${plan.message}`);
  }
}

interface Circumstances {
  readonly now: number;
  readonly isBusy: boolean;
  readonly wasWithdrawAsked: boolean;
}

/** No signal before the engine is out of its Service, and none in the middle of work while there is time. */
export function checkSignal(
  name: "TERM" | "KILL",
  facts: Observed,
  slice: SliceState,
  world: Circumstances,
): void {
  const { record, signals } = facts;
  const stop = record?.stop;
  if (stop === undefined) throw new Error("a signal without a stop on record");
  if (isForced(stop.why)) {
    if (slice === "ready" && !world.wasWithdrawAsked) {
      throw new Error("a useless engine was killed before its withdrawal was asked for");
    }
    return;
  }
  if (isGoodbye(facts, world)) {
    checkGoodbye(name, facts, world);
    return;
  }
  if (slice === "ready") throw new Error("stopped while its endpoint was announced");
  if (name === "KILL" && signals.secondTermAt === undefined) throw new Error("killed without two TERMs");
  if (name === "TERM" && signals.termAt === undefined) checkFirstTerm(facts, stop, world);
}

/** Of an engine that nobody reaches, and none of whose answers arrives, nothing is waited for. */
function checkFirstTerm({ slice, isCutOff }: Observed, stop: Stop, world: Circumstances): void {
  if (!slice.wasExposed || isCutOff) return;
  const { withdrawnAt } = slice;
  if (withdrawnAt === undefined || world.now - withdrawnAt < defaultTimings.propagationMs) {
    throw new Error("told to end before every node could see the withdrawal");
  }
  if (world.isBusy && world.now < stop.deadlineAt)
    throw new Error("told to end with requests in flight and time left");
}

/** Engines that end with their agent, or for memory, wait only so long for an API server that does not answer. */
function isGoodbye({ record, slice, agentEnds, pressure }: Observed, world: Circumstances): boolean {
  const startedAt = record?.stop?.startedAt;
  const isUrgent = agentEnds !== undefined || (pressure.at === "evicted" && pressure.how === "evict");
  if (!isUrgent || slice.withdrawnAt !== undefined || startedAt === undefined) return false;
  return world.wasWithdrawAsked && world.now - startedAt >= defaultTimings.goodbyeMs;
}

function checkGoodbye(
  name: "TERM" | "KILL",
  { record, slice, signals }: Observed,
  world: Circumstances,
): void {
  const isFirst = name === "TERM" && signals.termAt === undefined;
  const deadlineAt = record?.stop?.deadlineAt ?? Number.NEGATIVE_INFINITY;
  if (isFirst && slice.wasExposed && world.isBusy && world.now < deadlineAt)
    throw new Error("ended with its agent with requests in flight and time left");
}

/** A drain ends when its time is over, whatever the engine is doing. */
export function checkDeadline({ record, slice, signals, run }: Observed, now: number): void {
  const stop = record?.stop;
  if (stop === undefined || isForced(stop.why) || run.at !== "running" || signals.termAt !== undefined)
    return;
  const settledAt = (slice.withdrawnAt ?? Number.POSITIVE_INFINITY) + defaultTimings.propagationMs;
  if (now > Math.max(stop.deadlineAt, settledAt) + 1_000) throw new Error("drained past its deadline");
}

/** An engine that works is not killed on a suspicion. */
export function checkForced(why: ForcedStop, engine: Engine | undefined): void {
  if (why === "hung" && engine?.isHung !== true && engine?.isStuck !== true) {
    throw new Error("an engine that works was taken for a hung one");
  }
  if (why === "degraded" && engine?.isDegraded !== true) {
    throw new Error("an engine that answers was taken for a degraded one");
  }
}
