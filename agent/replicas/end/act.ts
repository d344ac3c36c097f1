/** Applies the steps that stop an engine, and those that follow its exit. */

import type { RunnerContext } from "../context/context.ts";
import type { Stop } from "../evidence/observed.ts";
import { noteStopRequested, runOf, setStop } from "../state/run.ts";
import { saveRecord } from "../state/save-record.ts";
import type { ReplicaState } from "../state/state.ts";
import type { StepOutcome } from "../state/step.ts";
import { forgetRun, recordExit } from "./exits.ts";
import { type EndStep, isForced } from "./plan.ts";

export async function applyEnd(
  step: EndStep,
  state: ReplicaState,
  context: RunnerContext,
): Promise<StepOutcome> {
  switch (step.do) {
    case "beginStop":
      return beginStop(state, context, step);
    case "stopBy":
      stopBy(state, context, step);
      return "later";
    case "killNow":
      state.log.info({ because: step.because }, "killing the engine");
      runOf(state)?.instance.killNow();
      return "later";
    case "recordExit":
      await recordExit(state, context);
      return "changed";
    case "forgetRun":
      await forgetRun(state, context);
      return "changed";
    default:
      return step satisfies never;
  }
}

function beginStop(
  state: ReplicaState,
  context: RunnerContext,
  { why, deadlineAt, latestAt, because }: Extract<EndStep, { do: "beginStop" }>,
): Promise<StepOutcome> {
  state.log.info({ why, because }, "stopping the engine");
  if (!isForced(why)) runOf(state)?.instance.leave?.();
  const { startedAt = context.ports.clock.monotonicMs(), withdrawnAt } = runOf(state)?.record.stop ?? {};
  return persistStop(state, context, { why, startedAt, deadlineAt, because, latestAt, withdrawnAt });
}

/** Sets the stop in memory and on disk, so that a restarted agent continues it. */
export async function persistStop(
  state: ReplicaState,
  context: RunnerContext,
  stop: Stop,
): Promise<StepOutcome> {
  if (runOf(state) === undefined) return "later";
  setStop(state, stop, context.moment());
  await saveRecord(state);
  return "changed";
}

function stopBy(
  state: ReplicaState,
  context: RunnerContext,
  { deadlineAt, because }: Extract<EndStep, { do: "stopBy" }>,
): void {
  const run = runOf(state);
  if (run === undefined) return;
  const now = context.ports.clock.monotonicMs();
  noteStopRequested(state, now);
  state.log.info({ inMs: deadlineAt - now, because }, "engine asked to stop");
  run.instance.stopBy(deadlineAt);
}
