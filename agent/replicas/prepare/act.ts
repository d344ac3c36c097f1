/** Applies the steps before a run: detect the runtime, fetch the weights, reserve memory and a port, start the process. */

import { randomUUID } from "node:crypto";
import { describeError, type ErrorCode, MetalbridgeError } from "../../../src/api/errors.ts";
import { removeRun } from "../../../src/supervise/run-directory.ts";
import { contentsOf } from "../../store/usage.ts";
import type { RunnerContext } from "../context/context.ts";
import { retryDelayMs } from "../evidence/corrections.ts";
import { isTerminal } from "../evidence/terminal-failures.ts";
import { prepareSecrets } from "../secrets/gate-files.ts";
import type { EngineFile } from "../state/engine-record.ts";
import { saveHistory, setPast } from "../state/history.ts";
import { beginRun, newEngineRun, noteNoRun } from "../state/run.ts";
import { type ReplicaState, replicaOf, replicaRuntime } from "../state/state.ts";
import type { StepOutcome } from "../state/step.ts";
import { storedFiles } from "../state/weights.ts";
import { instanceContextOf, readopt } from "./adopt.ts";
import { startModelFetch } from "./fetch.ts";
import type { PrepareStep } from "./plan.ts";

export async function applyPrepare(
  step: PrepareStep,
  state: ReplicaState,
  context: RunnerContext,
): Promise<StepOutcome> {
  switch (step.do) {
    case "detectRuntime":
      detect(state, context);
      return "later";
    case "fetch":
      return startModelFetch(state, context) ? "changed" : "later";
    case "reserve":
      return (await reserve(state, context, step.claimBytes)) ? "later" : "replan";
    case "start":
      await start(state, context);
      return "changed";
    default:
      return step satisfies never;
  }
}

function detect(state: ReplicaState, context: RunnerContext): void {
  const runtime = replicaRuntime(state);
  state.jobs.run("detect", async () => {
    await context.runtimes.detect(runtime);
    return true;
  });
}

/** Reserves memory and a port in the host's one serial step. False if refused: the next plan reports why. */
async function reserve(state: ReplicaState, context: RunnerContext, claimBytes: number): Promise<boolean> {
  try {
    const reservation = await context.admission.reserve(state.uid, {
      claimBytes,
      previousPort: state.past.history.port,
    });
    return reservation !== "refused";
  } catch (error) {
    launchFailed(state, context, error);
    return false;
  }
}

/** Starts the engine with its reservation. engine.json is synced to disk before the process starts, so a crash does not lose the claim. */
async function start(state: ReplicaState, context: RunnerContext): Promise<void> {
  const reserved = context.admission.get(state.uid);
  if (reserved === undefined || state.engine.at !== "none") return;
  try {
    await startReserved(state, context, reserved);
    setPast(state, { launchFailures: 0 });
  } catch (error) {
    // A process may have been started anyway: adopt it before anything else.
    await readopt(state, context);
    if (state.engine.at === "none") {
      removeRun(state.dir);
      context.admission.release(state.uid);
    }
    launchFailed(state, context, error);
  }
}

async function startReserved(
  state: ReplicaState,
  context: RunnerContext,
  reserved: { readonly port: number; readonly claimBytes: number },
): Promise<void> {
  const replica = replicaOf(state);
  const template = replica?.spec.template;
  const address = context.address();
  const driver = template === undefined ? undefined : context.runtimes.driver(template.runtime);
  if (replica === undefined || template === undefined || state.weights.at !== "stored") return;
  if (driver === undefined || address === undefined) return;
  const { model, draft, projector, loraAdapters } = state.weights.files;
  const { apiKey, ...files } = await prepareSecrets(replica, state.dir, context);
  const record: EngineFile = {
    version: 1,
    runId: randomUUID(),
    uid: state.uid,
    namespace: replica.metadata.namespace ?? "",
    name: replica.metadata.name,
    service: template.serviceName,
    runtime: template.runtime,
    mode: template.engine.mode,
    revision: template.revision,
    address,
    ...reserved,
    contents: [...contentsOf(...storedFiles(state.weights.files))],
    drainSeconds: replica.spec.drainSeconds,
    startedAtMs: context.ports.clock.nowMs(),
  };
  const moment = context.moment();
  const instance = await driver.open(instanceContextOf(state, context), {
    template,
    modelPath: model.path,
    files: model.files,
    mmprojPath: projector?.path ?? model.mmprojPath,
    draftPath: draft?.path,
    loraPaths: loraAdapters.map(({ path }) => path),
    ...files,
    address,
    port: reserved.port,
    record,
  });
  beginRun(state, newEngineRun(instance, { ...record, ...instance.handle }, apiKey, moment), false);
  state.log.info({ port: reserved.port }, "engine started");
  // Saved after the start, because users wait for the start and losing the port is harmless.
  if (state.past.history.port !== reserved.port)
    saveHistory(state, { ...state.past.history, port: reserved.port });
}

/** Errors of a full or read-only state folder, or one that another user owns. */
const DISK_ERRORS: ReadonlySet<string> = new Set(["ENOSPC", "EDQUOT", "EROFS", "EACCES", "EPERM", "EIO"]);

function launchFailed(state: ReplicaState, context: RunnerContext, error: unknown): void {
  const failures = state.past.launchFailures + 1;
  setPast(state, { launchFailures: failures });
  const now = context.ports.clock.monotonicMs();
  const { timings } = context;
  const failed = (
    code: ErrorCode,
    message: string,
    more: { transient: boolean; runtimeVersion?: string },
  ) => {
    const delayMs = retryDelayMs(code, failures, { isOnHost: false }, { timings, random: context.random() });
    if (state.engine.at === "none")
      noteNoRun(state, { at: "failed", code, message, retryAt: now + delayMs, ...more });
  };
  if (error instanceof MetalbridgeError) {
    const { code } = error;
    state.log.warn({ code, message: error.message }, "engine not started");
    const runtime = context.runtimes.state(replicaRuntime(state));
    const runtimeVersion = runtime.at === "present" ? runtime.version : undefined;
    failed(code, describeError(error), { transient: !isTerminal(code), runtimeVersion });
    return;
  }
  state.log.error({ err: error }, "engine not started");
  const isDisk = error instanceof Error && "code" in error && DISK_ERRORS.has(String(error.code));
  const message = `cannot start the engine: ${error instanceof Error ? error.message : String(error)}`;
  failed(isDisk ? "ReplicaFolderUnwritable" : "ReplicaStepFailed", message, { transient: true });
}
