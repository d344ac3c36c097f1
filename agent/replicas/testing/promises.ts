/** What no plan may ever do; each check throws with the promise that was broken. */
import { isForced } from "../end/plan.ts";
import type { DesiredState, ForcedStop, ObservedReplica, SliceState, Stop } from "../evidence/observed.ts";
import { defaultTimings } from "../evidence/timings.ts";
import type { ReplicaPlan } from "../state/step.ts";
import type { Engine } from "./engine.ts";

const { propagationMs, goodbyeMs } = defaultTimings;

/** Every plan says why, and when to plan again. */
export function checkPlan(plan: ReplicaPlan): void {
  if (plan.message === "" || plan.reason.length === 0) throw new Error("a plan without a reason");
  if (plan.phase === "Stopped") return;
  if (plan.recheckAfterMs === undefined || !(plan.recheckAfterMs > 0)) {
    throw new Error(`${plan.phase} without a wake-up time: ${plan.message}`);
  }
}

interface Circumstances {
  readonly now: number;
  /** Since when its slice really routes no requests. */
  readonly outAt: number | undefined;
  readonly isBusy: boolean;
  readonly wasWithdrawAsked: boolean;
}

/** No engine is stopped before it is out of its Service, nor in the middle of work while there is time. */
export function checkEnd(
  how: "stopBy" | "killNow",
  facts: ObservedReplica,
  slice: SliceState,
  world: Circumstances,
): void {
  const { record, run } = facts;
  // What an engine that has exited leaves behind serves no request.
  if (run.at === "ended") return;
  const stop = record?.stop;
  if (stop === undefined) throw new Error("an end without a stop on record");
  if (isForced(stop.why)) {
    if (slice === "ready" && !world.wasWithdrawAsked) {
      throw new Error("a useless engine was killed before its withdrawal was asked for");
    }
    return;
  }
  if (how === "killNow") throw new Error("an engine was killed that could have stopped");
  if (isGoodbye(facts, world)) {
    checkGoodbye(facts, world);
    return;
  }
  if (slice === "ready") throw new Error("stopped while its endpoint was announced");
  checkStop(facts, stop, world);
}

/** An engine that no client can reach, and whose answers do not arrive, is not waited for. */
function checkStop({ slice, isCutOff, agentStop }: ObservedReplica, stop: Stop, world: Circumstances): void {
  if (!slice.wasExposed || isCutOff) return;
  const { withdrawnAt } = slice;
  if (withdrawnAt === undefined || world.now - withdrawnAt < propagationMs) {
    throw new Error("stopped before every node could see the withdrawal");
  }
  const settledAt = (world.outAt ?? Number.POSITIVE_INFINITY) + propagationMs;
  const goodbyeAt = stop.startedAt + goodbyeMs + propagationMs;
  const outAt = agentStop === undefined ? settledAt : Math.min(settledAt, goodbyeAt);
  if (world.isBusy && world.now < timeIsOverAt(stop, outAt))
    throw new Error("stopped with requests in flight and time left");
}

/** Requests get the whole drain time, from when the last can have arrived; a given deadline is used as it is. */
function timeIsOverAt({ startedAt, deadlineAt, latestAt }: Stop, outAt: number): number {
  const fullTime = Math.max(startedAt, outAt) + deadlineAt - startedAt;
  return Math.min(fullTime, latestAt ?? Number.POSITIVE_INFINITY);
}

/**
 * Engines that stop with their agent, or for memory, wait a bounded time for an API server that does not
 * answer.
 */
function isGoodbye({ record, slice, agentStop, pressure }: ObservedReplica, world: Circumstances): boolean {
  const startedAt = record?.stop?.startedAt;
  const isUrgent = agentStop !== undefined || (pressure.at === "evicted" && pressure.how === "evict");
  if (!isUrgent || slice.withdrawnAt !== undefined || startedAt === undefined) return false;
  return world.wasWithdrawAsked && world.now - startedAt >= goodbyeMs;
}

function checkGoodbye({ record, slice }: ObservedReplica, world: Circumstances): void {
  const stop = record?.stop;
  if (stop === undefined || !slice.wasExposed || !world.isBusy) return;
  if (world.now < timeIsOverAt(stop, stop.startedAt + goodbyeMs))
    throw new Error("stopped with its agent although requests were in flight and time was left");
}

/** A drain ends when its time has elapsed, whatever the engine is doing. */
export function checkDeadline(
  { record, slice, run }: ObservedReplica,
  /** When an agent first saw this engine withdrawn; a new agent starts no new drain. */
  seenOutAt: number | undefined,
  now: number,
): void {
  const stop = record?.stop;
  if (stop === undefined || isForced(stop.why) || run.at !== "running" || run.ending !== undefined) return;
  const settledAt = (slice.withdrawnAt ?? Number.POSITIVE_INFINITY) + propagationMs;
  const endsAt = timeIsOverAt(stop, (seenOutAt ?? now) + propagationMs);
  if (now > Math.max(endsAt, settledAt) + 1_000) throw new Error("drained past its deadline");
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

/**
 * No request to stop cancels an earlier one, and only an explicit deadline, or needed memory, cuts a drain
 * short.
 */
export function checkBegin(
  before: Stop | undefined,
  asked: Pick<Stop, "deadlineAt" | "latestAt">,
  wanted: DesiredState,
  { pressure }: ObservedReplica,
): void {
  const { deadlineAt = Number.POSITIVE_INFINITY, latestAt = Number.POSITIVE_INFINITY } = before ?? {};
  if (asked.deadlineAt > deadlineAt || (asked.latestAt ?? Number.POSITIVE_INFINITY) > latestAt) {
    throw new Error("a second request to stop lengthened the drain");
  }
  const isNamed = typeof wanted !== "string" && wanted.drain?.deadlineAt !== undefined;
  const isNew = asked.latestAt !== undefined && asked.latestAt < latestAt;
  if (isNew && !isNamed && pressure.at !== "evicted")
    throw new Error("a drain got a deadline that was not requested");
}
