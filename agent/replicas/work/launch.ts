/** Reserve and start: memory and port first, then the record on disk, then the process. */
import { randomUUID } from "node:crypto";
import { describeError, MetalbridgeError } from "../../../src/errors.ts";
import { fetchRetryMs } from "../../../src/replica/timings.ts";
import { isHopeless } from "../../../src/replica/verdicts.ts";
import { contentsOf } from "../../store/usage.ts";
import type { RunnerContext } from "../context.ts";
import { type EngineFile, removeEngineFile } from "../files/engine-record.ts";
import { writeHistory } from "../files/history.ts";
import { freshRun, type ReplicaState, setFile } from "../state.ts";
import { writeKeyFile } from "./secrets.ts";

/** Takes memory and port in the host's one serial step. False: no start now; the next plan says why. */
export async function reserve(
  state: ReplicaState,
  context: RunnerContext,
  claimBytes: number,
): Promise<boolean> {
  try {
    const got = await context.admission.reserve(state.uid, { claimBytes, previousPort: state.history.port });
    return got !== "refused";
  } catch (error) {
    launchFailed(state, context, error);
    return false;
  }
}

/** Starts the engine on what was reserved. engine.json is synced to disk before anything runs, so no crash loses the claim. */
export async function start(state: ReplicaState, context: RunnerContext): Promise<void> {
  const reserved = context.admission.of(state.uid);
  if (reserved === undefined || state.desired === undefined || state.stored === undefined) return;
  try {
    await startReserved(state, context, reserved);
    state.launch = { at: "untried" };
    state.launchFailures = 0;
  } catch (error) {
    // Something may have been started all the same: look before anything else is tried.
    await readopt(state, context);
    if (state.process === undefined && state.adoptionError === undefined) giveBack(state, context);
    launchFailed(state, context, error);
  }
}

function giveBack(state: ReplicaState, context: RunnerContext): void {
  removeEngineFile(state.dir);
  setFile(state, undefined, context.moment());
  context.admission.release(state.uid);
}

async function startReserved(
  state: ReplicaState,
  context: RunnerContext,
  reserved: { readonly port: number; readonly claimBytes: number },
): Promise<void> {
  const { desired, stored } = state;
  const template = desired?.spec.template;
  const address = context.ports.address();
  const driver = template === undefined ? undefined : context.runtimes.driver(template.runtime);
  if (desired === undefined || stored === undefined || template === undefined) return;
  if (driver === undefined || address === undefined) return;
  const keys = await writeKeyFile(context.ports.client, desired, state.dir);
  const { model, draft } = stored;
  const { argv, env } = await driver.prepare({
    template,
    modelPath: model.path,
    ...(model.mmprojPath === undefined ? {} : { mmprojPath: model.mmprojPath }),
    ...(draft === undefined ? {} : { draftPath: draft.path }),
    ...(keys === undefined ? {} : { apiKeyFile: keys.path }),
    address,
    port: reserved.port,
    dir: state.dir,
  });
  const record: EngineFile = {
    version: 1,
    runId: randomUUID(),
    uid: state.uid,
    namespace: desired.metadata.namespace ?? "",
    name: desired.metadata.name,
    service: template.serviceName,
    runtime: template.runtime,
    mode: template.engine.mode,
    revision: template.revision,
    address,
    ...reserved,
    contents: [...contentsOf(model, draft)],
    drainSeconds: desired.spec.drainSeconds,
    argv: [...argv],
    startedAtMs: context.ports.clock.nowMs(),
  };
  state.run = { ...freshRun(), ...(keys === undefined ? {} : { apiKey: keys.apiKey }) };
  setFile(state, record, context.moment());
  state.process?.close();
  state.process = undefined;
  const onChange = (): void => context.enqueue(state.uid);
  state.process = await context.ports.processes.startEngine(state.dir, { argv, env, record }, onChange);
  state.log.info({ port: reserved.port, argv }, "engine started");
  keepPort(state, reserved.port);
}

/** After the start, not before it: losing the port's memory is harmless, and the start is what users wait for. */
function keepPort(state: ReplicaState, port: number): void {
  if (state.history.port === port) return;
  state.history = { ...state.history, port };
  try {
    writeHistory(state.dir, state.history);
  } catch (err) {
    state.log.warn({ err }, "could not write the replica's history");
  }
}

/** Takes up whatever runs in the directory. An unreadable directory is a state of its own: nothing is started then. */
export async function readopt(state: ReplicaState, context: RunnerContext): Promise<void> {
  try {
    const onChange = (): void => context.enqueue(state.uid);
    state.process ??= await context.ports.processes.adoptEngine(state.dir, onChange);
    state.adoptionError = undefined;
  } catch (error) {
    noteUnreadable(state, error);
  }
}

/** It is looked into again and again; only a new reason is news. */
export function noteUnreadable(state: ReplicaState, error: unknown): void {
  const why = error instanceof Error ? error.message : String(error);
  if (state.unreadableWhy !== why) state.log.warn({ err: error }, "the run directory could not be read");
  state.adoptionError = why;
  state.unreadableWhy = why;
}

/** What a full, read-only or foreign state folder answers. */
const DISK_ERRORS: ReadonlySet<string> = new Set(["ENOSPC", "EDQUOT", "EROFS", "EACCES", "EPERM", "EIO"]);

function launchFailed(state: ReplicaState, context: RunnerContext, error: unknown): void {
  state.launchFailures += 1;
  const now = context.ports.clock.monotonicMs();
  const retryAt = now + fetchRetryMs(context.timings, state.launchFailures, context.random());
  if (error instanceof MetalbridgeError) {
    const { code } = error;
    state.log.warn({ code, message: error.message }, "engine not started");
    const runtime = context.runtimes.state(state.desired?.spec.template.runtime ?? "");
    state.launch = {
      ...{ at: "failed", code, message: describeError(error), transient: !isHopeless(code), retryAt },
      ...(runtime.at === "present" ? { runtimeVersion: runtime.version } : {}),
    };
    return;
  }
  state.log.error({ err: error }, "engine not started");
  const isDisk = error instanceof Error && "code" in error && DISK_ERRORS.has(String(error.code));
  const message = `the engine could not be started: ${error instanceof Error ? error.message : String(error)}`;
  const code = isDisk ? "ReplicaFolderUnwritable" : "ReplicaStepFailed";
  state.launch = { at: "failed", code, message, transient: true, retryAt };
}
