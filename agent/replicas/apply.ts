/** Carries out the steps of a plan. Local ones at once, questions and writes to others as jobs. */
import type { Stop } from "../../src/replica/observed.ts";
import type { Step } from "../../src/replica/step.ts";
import type { RunnerContext } from "./context.ts";
import { stopOnDisk, writeEngineFile } from "./files/engine-record.ts";
import { removeFinalizer } from "./report/finalizer.ts";
import { type ReplicaState, setFile } from "./state.ts";
import { announce, withdraw } from "./work/endpoint.ts";
import { forgetReplica, forgetRun, recordExit } from "./work/exits.ts";
import { fetchModel } from "./work/fetch.ts";
import { measureFootprint } from "./work/footprint.ts";
import { reserve, start } from "./work/launch.ts";
import { pollQuiet, probeHealth, probeRequest } from "./work/probes.ts";
import { proveAgain } from "./work/prove-again.ts";

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
      | "signal"
      | "killGroup"
      | "recordExit"
      | "forgetRun"
      | "forgetReplica";
  }
>;

async function applyToRun(step: RunStep, state: ReplicaState, context: RunnerContext): Promise<Outcome> {
  switch (step.do) {
    case "markReady":
      return rewrite(state, context, { readyAtMs: context.ports.clock.nowMs() });
    case "beginStop":
      return beginStop(state, context, step);
    case "noteWithdrawn":
      return noteWithdrawn(state, context, step.withdrawnAt);
    case "cancelStop":
      return rewrite(state, context, { stop: undefined });
    case "adjustClaim":
      return adjustClaim(state, context, step.claimBytes);
    case "signal":
      return signal(state, context, step.signal, step.because);
    case "killGroup":
      state.run.signals = { ...state.run.signals, groupKillAt: context.ports.clock.monotonicMs() };
      state.process?.killGroup();
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
  const runtime = state.desired?.spec.template.runtime;
  if (runtime === undefined) return "later";
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
  state.log.info({ why, because }, "engine is to end");
  const { startedAt = context.ports.clock.monotonicMs(), withdrawnAt } = state.record?.stop ?? {};
  return keepStop(state, context, {
    ...{ why, startedAt, deadlineAt, because },
    ...(latestAt === undefined ? {} : { latestAt }),
    ...(withdrawnAt === undefined ? {} : { withdrawnAt }),
  });
}

function noteWithdrawn(state: ReplicaState, context: RunnerContext, withdrawnAt: number): Outcome {
  const stop = state.record?.stop;
  return stop === undefined ? "later" : keepStop(state, context, { ...stop, withdrawnAt });
}

function keepStop(state: ReplicaState, context: RunnerContext, stop: Stop): Outcome {
  if (state.file === undefined || state.record === undefined) return "later";
  const moment = context.moment();
  const file = { ...state.file, stop: stopOnDisk(stop, moment) };
  setFile(state, file, moment);
  // Exactly as planned: what went over the wall clock and back could differ and be planned again.
  state.record = { ...state.record, stop };
  writeEngineFile(state.dir, file);
  return "changed";
}

function adjustClaim(state: ReplicaState, context: RunnerContext, claimBytes: number): Outcome {
  if (state.file === undefined) return "later";
  context.admission.adopt(state.uid, { claimBytes, port: state.file.port });
  return rewrite(state, context, { claimBytes });
}

/** In memory first: a full disk must not hold up a stop. */
function rewrite(state: ReplicaState, context: RunnerContext, change: object): Outcome {
  if (state.file === undefined) return "later";
  const file = { ...state.file, ...change };
  setFile(state, file, context.moment());
  writeEngineFile(state.dir, file);
  return "changed";
}

function signal(
  state: ReplicaState,
  context: RunnerContext,
  name: "TERM" | "KILL",
  because: string,
): Outcome {
  const now = context.ports.clock.monotonicMs();
  const { signals } = state.run;
  if (name === "KILL") state.run.signals = { ...signals, killAt: now };
  else if (signals.termAt === undefined) state.run.signals = { ...signals, termAt: now };
  else state.run.signals = { ...signals, secondTermAt: now };
  const result = state.process?.signal(name);
  state.log.info({ signal: name, because, result }, "signal sent");
  return "later";
}
