/** Applies the steps of a plan; each phase has its own file. Local steps run immediately, requests to other processes as jobs. */

import type { RunnerContext } from "./context/context.ts";
import { applyEnd } from "./end/act.ts";
import type { ReplicaStep } from "./plan.ts";
import { applyPrepare } from "./prepare/act.ts";
import { applyServe } from "./serve/act.ts";
import { withdrawEndpoint } from "./serve/endpoint.ts";
import type { ReplicaState } from "./state/state.ts";
import type { StepOutcome } from "./state/step.ts";
import { applyStop } from "./stop/act.ts";

/** True if the replica must be planned again immediately. */
export async function applyReplicaSteps(
  steps: readonly ReplicaStep[],
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

function applyStep(
  step: ReplicaStep,
  state: ReplicaState,
  context: RunnerContext,
): StepOutcome | Promise<StepOutcome> {
  switch (step.do) {
    case "withdraw":
      withdrawEndpoint(state, context);
      return "later";
    case "detectRuntime":
    case "fetch":
    case "reserve":
    case "start":
      return applyPrepare(step, state, context);
    case "probeHealth":
    case "restoreFiles":
    case "rotateSecrets":
    case "checkRoute":
    case "scanLog":
    case "measureSpeed":
    case "probeRequest":
    case "proveAgain":
    case "measureFootprint":
    case "adjustClaim":
    case "setEndpoint":
    case "markReady":
    case "cancelStop":
      return applyServe(step, state, context);
    case "beginStop":
    case "stopBy":
    case "killNow":
    case "recordExit":
    case "forgetRun":
      return applyEnd(step, state, context);
    case "noteWithdrawn":
    case "pollQuiet":
    case "cancelFetch":
    case "removeFinalizer":
    case "forgetReplica":
      return applyStop(step, state, context);
    default:
      return step satisfies never;
  }
}
