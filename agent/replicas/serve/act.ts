/** Applies the steps of an engine that should serve: probes, claim, endpoint and record. */

import type { RunnerContext } from "../context/context.ts";
import { rotateSecrets } from "../secrets/gate-files.ts";
import { countLoad } from "../state/counts.ts";
import type { EngineFile } from "../state/engine-record.ts";
import { clearTerminal } from "../state/history.ts";
import { runOf, setFile } from "../state/run.ts";
import { saveRecord } from "../state/save-record.ts";
import { type ReplicaState, replicaOf } from "../state/state.ts";
import type { StepOutcome } from "../state/step.ts";
import { announceEndpoint } from "./endpoint.ts";
import { noteSpeed } from "./gauges.ts";
import { scanLog } from "./log-lines.ts";
import type { ServeStep } from "./plan.ts";
import {
  checkRoute,
  measureFootprint,
  proveAgain,
  restoreFiles,
  startHealthProbe,
  startRequestProbe,
} from "./probes.ts";

export function applyServe(
  step: ServeStep,
  state: ReplicaState,
  context: RunnerContext,
): StepOutcome | Promise<StepOutcome> {
  switch (step.do) {
    case "probeHealth":
      startHealthProbe(state, context);
      return "later";
    case "restoreFiles":
      restoreFiles(state);
      return "later";
    case "rotateSecrets":
      rotateSecrets(state, context);
      return "later";
    case "checkRoute":
      checkRoute(state, context);
      return "later";
    case "scanLog":
      scanLog(state, context);
      return "later";
    case "measureSpeed":
      noteSpeed(state, context);
      return "later";
    case "probeRequest":
      startRequestProbe(state, context, step.timeoutMs);
      return "later";
    case "proveAgain":
      proveAgain(state, context, step.timeoutMs);
      return "later";
    case "measureFootprint":
      measureFootprint(state, context);
      return "later";
    case "adjustClaim":
      return adjustClaim(state, context, step.claimBytes);
    case "setEndpoint":
      announceEndpoint(state, context, step.port);
      return "later";
    case "markReady":
      clearTerminal(state);
      noteLoadTime(state, context);
      return rewrite(state, context, { readyAtMs: context.ports.clock.nowMs() });
    case "cancelStop":
      void runOf(state)?.instance.admitClients?.();
      return rewrite(state, context, { stop: undefined });
    default:
      return step satisfies never;
  }
}

/** On the monotonic clock, because the wall clock may be set during a start. */
function noteLoadTime(state: ReplicaState, { counts, ports }: RunnerContext): void {
  const { template } = replicaOf(state)?.spec ?? {};
  const startedAt = runOf(state)?.record.startedAt;
  if (template !== undefined && startedAt !== undefined)
    countLoad(counts, template, "start", ports.clock.monotonicMs() - startedAt);
}

async function adjustClaim(
  state: ReplicaState,
  context: RunnerContext,
  claimBytes: number,
): Promise<StepOutcome> {
  const run = runOf(state);
  if (run === undefined) return "later";
  context.admission.adopt(state.uid, { claimBytes, port: run.file.port });
  return rewrite(state, context, { claimBytes });
}

/** Changes memory first: a full disk must not block a stop. */
async function rewrite(
  state: ReplicaState,
  context: RunnerContext,
  change: Partial<EngineFile>,
): Promise<StepOutcome> {
  if (runOf(state) === undefined) return "later";
  setFile(state, change, context.moment());
  await saveRecord(state);
  return "changed";
}
