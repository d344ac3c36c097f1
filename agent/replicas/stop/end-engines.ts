/** Stops all engines before the agent exits (--stop-engines): each is drained as usual, and its status is published. */

import { waitMs } from "../../../src/kube/wait.ts";
import type { RunnerContext } from "../context/context.ts";
import type { ObservedReplica } from "../evidence/observed.ts";
import { runOf } from "../state/run.ts";
import { type ReplicaState, refOf, replicaOf } from "../state/state.ts";

/** Time in addition to the drain: for TERM, TERM, KILL and leftover processes. */
const ENDING_MS = 10_000;
const POLL_MS = 20;

/** `begin` notifies the planner; everything else only waits. `atOnce` is a second request to stop, which shortens the wait. */
export async function stopAllEngines(
  context: RunnerContext,
  atOnce: AbortSignal,
  begin: (how: NonNullable<ObservedReplica["agentStop"]>) => void,
): Promise<void> {
  const { clock } = context.ports;
  const { propagationMs, goodbyeMs } = context.timings;
  const startedMs = clock.monotonicMs();
  let deadlineMs = startedMs + longestDrainMs(context) + propagationMs + goodbyeMs + ENDING_MS;
  const onSecondRequest = (): void => {
    deadlineMs = Math.min(deadlineMs, clock.monotonicMs() + propagationMs + goodbyeMs + ENDING_MS);
    context.log.warn({}, "second request to stop: no longer waiting for requests in flight");
    begin("immediate");
  };
  logBegin(context);
  begin("graceful");
  if (atOnce.aborted) onSecondRequest();
  else atOnce.addEventListener("abort", onSecondRequest, { once: true });
  try {
    await waitUntil(
      () => runningEngines(context).length === 0,
      () => deadlineMs,
      context,
    );
    const publishMs = clock.monotonicMs() + goodbyeMs;
    await waitUntil(
      () => [...context.states.values()].every(isPublished),
      () => Math.min(deadlineMs, publishMs),
      context,
    );
  } finally {
    atOnce.removeEventListener("abort", onSecondRequest);
  }
  logEnd(context, clock.monotonicMs() - startedMs);
}

/** Polls, because no event reports that all replicas have finished. */
async function waitUntil(
  isDone: () => boolean,
  deadlineMs: () => number,
  context: RunnerContext,
): Promise<void> {
  const { clock } = context.ports;
  while (!isDone() && clock.monotonicMs() < deadlineMs()) await waitMs(clock, POLL_MS, context.signal);
}

function runningEngines({ states }: RunnerContext): readonly ReplicaState[] {
  return [...states.values()].filter((state) => runOf(state) !== undefined);
}

/** True if the status says Stopped, or there is no object to update. */
function isPublished({ desired, published }: ReplicaState): boolean {
  if (desired.at !== "current") return true;
  return published.plan?.phase === "Stopped" && desired.replica.status?.phase === "Stopped";
}

function longestDrainMs(context: RunnerContext): number {
  const seconds = runningEngines(context).map(
    (state) => replicaOf(state)?.spec.drainSeconds ?? runOf(state)?.file.drainSeconds ?? 0,
  );
  return 1_000 * Math.max(0, ...seconds);
}

function logBegin(context: RunnerContext): void {
  const engines = runningEngines(context).map((state) => refOf(state)?.name ?? state.uid);
  const mostSeconds = longestDrainMs(context) / 1_000;
  context.log.info(
    { engines, mostSeconds },
    "stopping the engines with the agent: withdrawing, draining and ending each",
  );
}

function logEnd(context: RunnerContext, tookMs: number): void {
  const left = runningEngines(context).map((state) => refOf(state)?.name ?? state.uid);
  const unpublished = [...context.states.values()].filter((state) => !isPublished(state)).length;
  const facts = { tookMs: Math.round(tookMs), left, unpublished };
  if (left.length === 0 && unpublished === 0) context.log.info(facts, "all engines have stopped");
  else context.log.warn(facts, "not all engines stopped in time, or their status could not be published");
}
