/** Why a replica should stop and by when, and the part of that which is saved to disk. Pure. */

import type { EndStep } from "../end/plan.ts";
import type { GracefulStop, ObservedReplica, ProbeSettings, Stop } from "../evidence/observed.ts";
import type { Because, ReplicaPlan } from "../state/step.ts";

export type NoteWithdrawn = Because & { readonly do: "noteWithdrawn"; readonly withdrawnAt: number };

export interface StopGoal {
  readonly why: GracefulStop;
  readonly drainSeconds: number;
  readonly deadlineAt?: number;
  readonly hasFinalizer: boolean;
  readonly probes?: ProbeSettings;
  /** No client can reach the engine: the withdrawal need not propagate, and no answer would arrive. */
  readonly isCutOff?: boolean;
}

export const STOP_MESSAGES: Record<GracefulStop, string> = {
  deleted: "the replica is being deleted",
  drained: "spec.drain is set",
  unwanted: "the replica no longer exists",
  revision: "the running engine has another revision",
  moved: "the host's address has changed and the engine listens on the old one",
  evicted: "the host's memory is critical",
  unloaded: "the host's memory is low and the engine was idle",
  agentStopped: "the agent is stopping its engines (--stop-engines)",
};

/** A second request to stop may shorten the remaining time, never extend it. */
export function shortenStop(
  before: Stop | undefined,
  goal: StopGoal,
  { slice }: ObservedReplica,
  now: number,
): Stop {
  const { startedAt = now, why = goal.why } = before ?? {};
  const requestedAt = earliest(before?.deadlineAt, goal.deadlineAt, startedAt + goal.drainSeconds * 1_000);
  const deadlineAt = Math.max(startedAt, requestedAt);
  const latestAt = earliest(before?.latestAt, goal.why === "evicted" ? deadlineAt : goal.deadlineAt);
  const withdrawnAt = before?.withdrawnAt ?? slice.withdrawnAt;
  return {
    why,
    startedAt,
    deadlineAt,
    latestAt: latestAt === Number.POSITIVE_INFINITY ? undefined : latestAt,
    withdrawnAt,
  };
}

function earliest(...times: readonly (number | undefined)[]): number {
  return Math.min(...times.filter((time) => time !== undefined));
}

/** The step that saves a change of the stop for the next agent; undefined if nothing has changed. */
export function noteStop(
  before: Stop | undefined,
  { deadlineAt, latestAt, withdrawnAt }: Stop,
  { why }: StopGoal,
  { reason }: ReplicaPlan,
): EndStep | NoteWithdrawn | undefined {
  if (before === undefined || deadlineAt < before.deadlineAt || latestAt !== before.latestAt) {
    return { do: "beginStop", why, deadlineAt, latestAt, because: STOP_MESSAGES[why] };
  }
  if (withdrawnAt === undefined || withdrawnAt === before.withdrawnAt || reason === "EndingProcess")
    return undefined;
  return { do: "noteWithdrawn", withdrawnAt, because: "the drain timeout counts from here" };
}
