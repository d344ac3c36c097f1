/**
 * Stops all engines on the agent's exit, when requested: each is drained as for any other stop and its status
 * published.
 */

import { waitMs } from "../../../src/kube/wait.ts";
import type { RunnerContext } from "../context.ts";
import type { ObservedReplica } from "../observed.ts";
import { runOf } from "../state/run.ts";
import { type ReplicaState, refOf, replicaOf } from "../state/state.ts";

/** Beyond a drain's own time: for TERM, TERM, KILL and what an engine leaves behind. */
const ENDING_MS = 10_000;
const POLL_MS = 20;

/**
 * `begin` notifies the planner; the rest only waits. `atOnce` is the second request, which shortens the wait.
 */
export async function endEngines(
  context: RunnerContext,
  atOnce: AbortSignal,
  begin: (how: NonNullable<ObservedReplica["agentEnds"]>) => void,
): Promise<void> {
  const { clock } = context.ports;
  const { propagationMs, goodbyeMs } = context.timings;
  const startedMs = clock.monotonicMs();
  let lateMs = startedMs + longestDrainMs(context) + propagationMs + goodbyeMs + ENDING_MS;
  const hurry = (): void => {
    lateMs = Math.min(lateMs, clock.monotonicMs() + propagationMs + goodbyeMs + ENDING_MS);
    context.log.warn({}, "second request to stop: no longer waiting for requests in flight");
    begin("at once");
  };
  logBegin(context);
  begin("in order");
  if (atOnce.aborted) hurry();
  else atOnce.addEventListener("abort", hurry, { once: true });
  try {
    await until(
      () => living(context).length === 0,
      () => lateMs,
      context,
    );
    const publishMs = clock.monotonicMs() + goodbyeMs;
    await until(
      () => [...context.states.values()].every(isPublished),
      () => Math.min(lateMs, publishMs),
      context,
    );
  } finally {
    atOnce.removeEventListener("abort", hurry);
  }
  logEnd(context, clock.monotonicMs() - startedMs);
}

/** No event reports that all replicas are done; this is the agent's last act, so it may poll often. */
async function until(isDone: () => boolean, lateMs: () => number, context: RunnerContext): Promise<void> {
  const { clock } = context.ports;
  while (!isDone() && clock.monotonicMs() < lateMs()) await waitMs(clock, POLL_MS, context.signal);
}

function living({ states }: RunnerContext): readonly ReplicaState[] {
  return [...states.values()].filter((state) => runOf(state) !== undefined);
}

/** Its status says stopped and its endpoint is withdrawn, or there is no object to update. */
function isPublished({ wish, shown }: ReplicaState): boolean {
  if (wish.at !== "seen") return true;
  return shown.plan?.phase === "Stopped" && wish.replica.status?.phase === "Stopped";
}

function longestDrainMs(context: RunnerContext): number {
  const seconds = living(context).map(
    (state) => replicaOf(state)?.spec.drainSeconds ?? runOf(state)?.file.drainSeconds ?? 0,
  );
  return 1_000 * Math.max(0, ...seconds);
}

function logBegin(context: RunnerContext): void {
  const engines = living(context).map((state) => refOf(state)?.name ?? state.uid);
  const mostSeconds = longestDrainMs(context) / 1_000;
  context.log.info(
    { engines, mostSeconds },
    "stopping the engines with the agent: withdrawing, draining and ending each",
  );
}

function logEnd(context: RunnerContext, tookMs: number): void {
  const left = living(context).map((state) => refOf(state)?.name ?? state.uid);
  const unpublished = [...context.states.values()].filter((state) => !isPublished(state)).length;
  const facts = { tookMs: Math.round(tookMs), left, unpublished };
  if (left.length === 0 && unpublished === 0) context.log.info(facts, "all engines have stopped");
  else context.log.warn(facts, "not all engines stopped in time, or their status could not be published");
}
