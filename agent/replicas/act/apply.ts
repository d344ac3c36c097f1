/** Carries out the steps of a plan. Local ones at once, questions and writes to others as jobs. */

import type { RunnerContext } from "../context.ts";
import type { Stop } from "../plan/observed.ts";
import type { Step } from "../plan/step.ts";
import { stopOnDisk, writeEngineFile } from "../state/engine-record.ts";
import { keepHistory } from "../state/history.ts";
import { runtimeOf } from "../state/observe.ts";
import { type ReplicaState, runOf, setFile } from "../state/state.ts";
import { announce, withdraw } from "./endpoint.ts";
import { forgetReplica, forgetRun, recordExit } from "./exits.ts";
import { fetchModel } from "./fetch.ts";
import { removeFinalizer } from "./finalizer.ts";
import { reserve, start } from "./launch.ts";
import { measureFootprint, pollQuiet, probeHealth, probeRequest, proveAgain } from "./probes.ts";

/** What a step leaves: nothing new yet, facts that want a new plan at once, or a reason not to take the later steps. */
type Outcome = "later" | "changed" | "replan";

/** True when the replica should be planned again at once. */
export async function applySteps(
  steps: readonly Step[],
  state: ReplicaState,
  context: RunnerContext,
): Promise<boolean> {
  let isChanged = false;
  for (const step of steps) {
    const outcome = await applyStep(step, state, context);
    if (outcome === "replan") return true;
    if (outcome === "changed") isChanged = true;
  }
  return isChanged;
}

async function applyStep(step: Step, state: ReplicaState, context: RunnerContext): Promise<Outcome> {
  switch (step.do) {
    case "detectRuntime":
      return detect(state, context);
    case "fetch":
      return fetchModel(state, context) ? "changed" : "later";
    case "cancelFetch":
      state.jobs.cancel("fetch");
      return "later";
    case "reserve":
      return (await reserve(state, context, step.claimBytes)) ? "later" : "replan";
    case "start":
      await start(state, context);
      return "changed";
    case "probeHealth":
      probeHealth(state, context);
      return "later";
    case "probeRequest":
      probeRequest(state, context, step.timeoutMs);
      return "later";
    case "proveAgain":
      proveAgain(state, context, step.timeoutMs);
      return "later";
    case "measureFootprint":
      measureFootprint(state, context);
      return "later";
    case "setEndpoint":
      announce(state, context, step.port);
      return "later";
    case "withdraw":
      withdraw(state, context);
      return "later";
    case "pollQuiet":
      pollQuiet(state, context);
      return "later";
    case "removeFinalizer":
      removeFinalizer(state, context);
      return "later";
    default:
      return applyToRun(step, state, context);
  }
}

type RunStep = Extract<
  Step,
  {
    do:
      | "adjustClaim"
      | "markReady"
      | "beginStop"
      | "noteWithdrawn"
      | "cancelStop"
      | "stopBy"
      | "endNow"
      | "recordExit"
      | "forgetRun"
      | "forgetReplica";
  }
>;

async function applyToRun(step: RunStep, state: ReplicaState, context: RunnerContext): Promise<Outcome> {
  switch (step.do) {
    case "markReady":
      return markReady(state, context);
    case "beginStop":
      return beginStop(state, context, step);
    case "noteWithdrawn":
      return noteWithdrawn(state, context, step.withdrawnAt);
    case "cancelStop":
      return rewrite(state, context, { stop: undefined });
    case "adjustClaim":
      return adjustClaim(state, context, step.claimBytes);
    case "stopBy":
      return stopBy(state, context, step);
    case "endNow":
      state.log.info({ because: step.because }, "killing the engine");
      runOf(state)?.instance.endNow();
      return "later";
    case "recordExit":
      await recordExit(state, context);
      return "changed";
    case "forgetRun":
      forgetRun(state, context);
      return "changed";
    case "forgetReplica":
      forgetReplica(state, context);
      return "later";
    default:
      return step satisfies never;
  }
}

function detect(state: ReplicaState, context: RunnerContext): Outcome {
  const runtime = runtimeOf(state);
  state.jobs.run("detect", async () => {
    await context.runtimes.detect(runtime);
    return true;
  });
  return "later";
}

function beginStop(
  state: ReplicaState,
  context: RunnerContext,
  { why, deadlineAt, latestAt, because }: Extract<Step, { do: "beginStop" }>,
): Outcome {
  state.log.info({ why, because }, "stopping the engine");
  const { startedAt = context.ports.clock.monotonicMs(), withdrawnAt } = runOf(state)?.record.stop ?? {};
  return keepStop(state, context, {
    ...{ why, startedAt, deadlineAt, because },
    ...(latestAt === undefined ? {} : { latestAt }),
    ...(withdrawnAt === undefined ? {} : { withdrawnAt }),
  });
}

function noteWithdrawn(state: ReplicaState, context: RunnerContext, withdrawnAt: number): Outcome {
  const stop = runOf(state)?.record.stop;
  return stop === undefined ? "later" : keepStop(state, context, { ...stop, withdrawnAt });
}

function keepStop(state: ReplicaState, context: RunnerContext, stop: Stop): Outcome {
  const run = runOf(state);
  if (run === undefined) return "later";
  const moment = context.moment();
  const file = { ...run.file, stop: stopOnDisk(stop, moment) };
  setFile(run, file, moment);
  // Exactly as planned: what went over the wall clock and back could differ and be planned again.
  run.record = { ...run.record, stop };
  writeEngineFile(state.dir, file);
  return "changed";
}

/** An engine that serves is proof against the verdict on an earlier one. */
function markReady(state: ReplicaState, context: RunnerContext): Outcome {
  const { terminal, ...history } = state.past.history;
  if (terminal !== undefined) keepHistory(state, history);
  return rewrite(state, context, { readyAtMs: context.ports.clock.nowMs() });
}

function adjustClaim(state: ReplicaState, context: RunnerContext, claimBytes: number): Outcome {
  const run = runOf(state);
  if (run === undefined) return "later";
  context.admission.adopt(state.uid, { claimBytes, port: run.file.port });
  return rewrite(state, context, { claimBytes });
}

/** In memory first: a full disk must not hold up a stop. */
function rewrite(state: ReplicaState, context: RunnerContext, change: object): Outcome {
  const run = runOf(state);
  if (run === undefined) return "later";
  const file = { ...run.file, ...change };
  setFile(run, file, context.moment());
  writeEngineFile(state.dir, file);
  return "changed";
}

function stopBy(
  state: ReplicaState,
  context: RunnerContext,
  { deadlineAt, because }: Extract<Step, { do: "stopBy" }>,
): Outcome {
  const run = runOf(state);
  if (run === undefined) return "later";
  const now = context.ports.clock.monotonicMs();
  run.stopAskedAt ??= now;
  state.log.info({ inMs: deadlineAt - now, because }, "engine asked to stop");
  run.instance.stopBy(deadlineAt);
  return "later";
}
