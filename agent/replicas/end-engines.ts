/** The agent was told to end its engines with itself: each is drained as for any other stop, and the cluster hears of it. */
import { waitMs } from "../../src/kube/wait.ts";
import type { Observed } from "../../src/replica/observed.ts";
import type { RunnerContext } from "./context.ts";
import { type ReplicaState, refOf } from "./state.ts";

/** Beyond a drain's own time: for TERM, TERM, KILL and what an engine leaves behind. */
const ENDING_MS = 10_000;
const POLL_MS = 20;

/** `begin` tells the planner; after that it is only waited for. `atOnce` is the second request, which shortens the wait. */
export async function endEngines(
  context: RunnerContext,
  atOnce: AbortSignal,
  begin: (how: NonNullable<Observed["agentEnds"]>) => void,
): Promise<void> {
  const { clock } = context.ports;
  const { propagationMs, goodbyeMs } = context.timings;
  const startedMs = clock.monotonicMs();
  let lateMs = startedMs + longestDrainMs(context) + propagationMs + goodbyeMs + ENDING_MS;
  const hurry = (): void => {
    lateMs = Math.min(lateMs, clock.monotonicMs() + propagationMs + goodbyeMs + ENDING_MS);
    context.log.warn({}, "asked again to end: requests in flight are not waited for any more");
    begin("at once");
  };
  sayBegin(context);
  begin("in order");
  if (atOnce.aborted) hurry();
  else atOnce.addEventListener("abort", hurry, { once: true });
  try {
    await until(
      () => living(context).length === 0,
      () => lateMs,
      context,
    );
    const toldMs = clock.monotonicMs() + goodbyeMs;
    await until(
      () => [...context.states.values()].every(isTold),
      () => Math.min(lateMs, toldMs),
      context,
    );
  } finally {
    atOnce.removeEventListener("abort", hurry);
  }
  sayEnd(context, clock.monotonicMs() - startedMs);
}

/** No event says that all of many replicas are done; this is the agent's last act, so it may look often. */
async function until(isDone: () => boolean, lateMs: () => number, context: RunnerContext): Promise<void> {
  const { clock } = context.ports;
  while (!isDone() && clock.monotonicMs() < lateMs()) await waitMs(clock, POLL_MS, context.signal);
}

function living({ states }: RunnerContext): readonly ReplicaState[] {
  return [...states.values()].filter(({ process }) => process !== undefined);
}

/** Its status says that it is stopped and its endpoint is out, or there is nobody to tell. */
function isTold({ desired, isSeen, isGone, plan }: ReplicaState): boolean {
  if (desired === undefined || isGone || !isSeen) return true;
  return plan?.phase === "Stopped" && desired.status?.phase === "Stopped";
}

function longestDrainMs(context: RunnerContext): number {
  const seconds = living(context).map(
    ({ desired, file }) => desired?.spec.drainSeconds ?? file?.drainSeconds ?? 0,
  );
  return 1_000 * Math.max(0, ...seconds);
}

function sayBegin(context: RunnerContext): void {
  const engines = living(context).map((state) => refOf(state)?.name ?? state.uid);
  const mostSeconds = longestDrainMs(context) / 1_000;
  context.log.info(
    { engines, mostSeconds },
    "agent ends and its engines with it: they leave their Services, finish their requests and are stopped",
  );
}

function sayEnd(context: RunnerContext, tookMs: number): void {
  const left = living(context).map((state) => refOf(state)?.name ?? state.uid);
  const untold = [...context.states.values()].filter((state) => !isTold(state)).length;
  const facts = { tookMs: Math.round(tookMs), left, untold };
  if (left.length === 0 && untold === 0) context.log.info(facts, "all engines have ended");
  else context.log.warn(facts, "not all engines have ended in time, or the cluster could not be told");
}
