/** Takes over from the previous agent: its replicas, its reservations, and the engines that are still running. */

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { Instance, InstanceContext } from "../../instances/instance.ts";
import { ENGINES_FOLDER } from "../../instances/instances.ts";
import type { RunnerContext } from "../context/context.ts";
import { readKeyFile } from "../secrets/secrets.ts";
import { createReplicaCounts } from "../state/counts.ts";
import { type EngineFile, readEngineFile } from "../state/engine-record.ts";
import { pressureTimesOf, readReplicaHistory } from "../state/history.ts";
import { createJobs } from "../state/jobs.ts";
import { createChangeMonitor, createReplicaLog } from "../state/replica-log.ts";
import {
  beginRun,
  NEVER_ANNOUNCED,
  NO_ENGINE,
  newEngineRun,
  noteNoRun,
  noteUnreadableRun,
} from "../state/run.ts";
import { type ReplicaState, refOf, replicaOf, setDesiredObject } from "../state/state.ts";
import { claimModel, resolveOnDisk } from "./fetch.ts";

/** Creates the state of one replica, with the history from its directory. Starts and signals nothing. */
export function openState(uid: string, context: RunnerContext): ReplicaState {
  const dir = join(context.ports.stateDir, ENGINES_FOLDER, uid);
  const history = readReplicaHistory(dir);
  const { wallMs, monotonicMs } = context.moment();
  const left = history.backoffUntilMs === undefined ? 0 : history.backoffUntilMs - wallMs;
  const log = createReplicaLog(context.log, uid, () => refOf(state));
  const state: ReplicaState = {
    uid,
    dir,
    log,
    jobs: createJobs({
      clock: context.ports.clock,
      log,
      signal: context.signal,
      onDone: () => context.enqueue(uid),
      onRetry: (delayMs) => void context.ports.clock.after(delayMs, () => context.enqueue(uid)),
    }),
    counts: createReplicaCounts(),
    repeated: createChangeMonitor(log),
    desired: { at: "unknown" },
    engine: NO_ENGINE,
    weights: { at: "unknown" },
    slice: NEVER_ANNOUNCED,
    past: {
      history,
      // Capped, because the wall clock may have been set back.
      backoffUntil: left <= 0 ? undefined : monotonicMs + Math.min(left, context.timings.backoffMaxMs),
      pressure: pressureTimesOf(history, { wallMs, monotonicMs }),
      fetchFailures: 0,
      launchFailures: 0,
    },
    published: {},
    recordWritten: Promise.resolve(),
  };
  if (history.port !== undefined) context.admission.retainPort(uid, history.port);
  context.states.set(uid, state);
  return state;
}

/** Counts every claim before anything is admitted, then adopts all engines concurrently. Writes nothing to disk. */
export async function adoptAll(context: RunnerContext): Promise<void> {
  const desired = context.desiredFiles.readAll();
  const uids = new Set([...foldersIn(join(context.ports.stateDir, ENGINES_FOLDER)), ...desired.keys()]);
  const found = [...uids].map((uid) => {
    const state = openState(uid, context);
    const replica = desired.get(uid);
    if (replica !== undefined) setDesiredObject(state, "cached", replica, context.moment());
    return { state, file: readRecord(state, context) };
  });
  await Promise.all(found.map(({ state, file }) => adoptInstance(state, file, context)));
}

/** Ignores plain files, which file managers create everywhere. */
function foldersIn(folder: string): readonly string[] {
  if (!existsSync(folder)) return [];
  const entries = readdirSync(folder, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}

/** Adopts an engine in a folder that could not be read before, or in which a start has just failed. */
export async function readopt(state: ReplicaState, context: RunnerContext): Promise<void> {
  noteNoRun(state);
  await adoptInstance(state, readRecord(state, context), context);
}

async function adoptInstance(
  state: ReplicaState,
  recorded: EngineFile | undefined,
  context: RunnerContext,
): Promise<void> {
  if (state.engine.at !== "none") return;
  const found = await tryToAdopt(state, recorded, context);
  if (found === undefined || state.engine.at !== "none") return;
  const file = recorded ?? (await recordOfUnknown(state, found, context));
  // An announcement by the previous agent may still reach the API server.
  beginRun(state, newEngineRun(found, file, readKeyFile(state.dir), context.moment()), true);
  context.admission.adopt(state.uid, { claimBytes: file.claimBytes, port: file.port });
  claimModel(state, context);
  state.log.info({ state: found.state() }, "engine adopted");
}

/** An unreadable directory is a separate state, in which nothing is started. */
async function tryToAdopt(
  state: ReplicaState,
  file: EngineFile | undefined,
  context: RunnerContext,
): Promise<Instance | undefined> {
  try {
    const found = await adopt(state, file, context);
    state.repeated.resolved("read the run directory");
    // The reservation was for a start that never happened.
    if (found === undefined && file !== undefined) context.admission.release(state.uid);
    return found;
  } catch (error) {
    noteUnreadable(state, error);
    return undefined;
  }
}

/** Adopts with the driver of the recorded engine; without one, adopts any process that was started in the folder. */
async function adopt(
  state: ReplicaState,
  file: EngineFile | undefined,
  context: RunnerContext,
): Promise<Instance | undefined> {
  const place = instanceContextOf(state, context);
  const template = replicaOf(state)?.spec.template;
  const previous = {
    port: file?.port ?? state.past.history.port ?? 0,
    service: file?.service ?? template?.serviceName ?? "",
    record: file ?? {},
  };
  const driver = context.runtimes.driver(file?.runtime ?? template?.runtime ?? "");
  return (
    (await driver?.adopt(place, previous)) ??
    context.ports.processes.adopt(place, { host: "127.0.0.1", port: previous.port })
  );
}

/** The folder of the replica's instance; each change of the instance enqueues the replica. */
export function instanceContextOf(
  { uid, dir, log }: ReplicaState,
  { enqueue }: RunnerContext,
): InstanceContext {
  return { dir, log, onChange: () => enqueue(uid) };
}

function readRecord(state: ReplicaState, context: RunnerContext): EngineFile | undefined {
  try {
    const file = readEngineFile(state.dir);
    if (file === undefined || file === "unreadable") return undefined;
    context.admission.adopt(state.uid, { claimBytes: file.claimBytes, port: file.port });
    if (file.contents !== undefined) context.ports.store.hold(state.uid, file.contents);
    return file;
  } catch (error) {
    // The folder may belong to a running engine: it blocks its own replica and no other.
    noteUnreadable(state, error);
    return undefined;
  }
}

/** The folder is read in every pass; only a new reason is logged. */
function noteUnreadable(state: ReplicaState, error: unknown): void {
  const why = error instanceof Error ? error.message : String(error);
  state.repeated.found("read the run directory", why, { err: error });
  noteUnreadableRun(state, why);
}

/** The record of an engine whose own record is lost. Its revision is unknown, so the engine is drained and then replaced. */
async function recordOfUnknown(
  state: ReplicaState,
  instance: Instance,
  context: RunnerContext,
): Promise<EngineFile> {
  const replica = replicaOf(state);
  const template = replica?.spec.template;
  // The claim is the largest known figure, and at least the memory that the engine uses now.
  const [footprint = 0] = await Promise.all([instance.footprintBytes(), resolveOnDisk(state, context)]);
  const { weights } = state;
  const own = weights.at === "stored" && weights.claim?.at === "estimated" ? weights.claim.bytes : 0;
  state.log.warn({}, "an engine is running without a readable record; it will be replaced");
  return {
    version: 1,
    runId: `unknown-${state.uid}`,
    uid: state.uid,
    namespace: replica?.metadata.namespace ?? "",
    name: replica?.metadata.name ?? "",
    service: template?.serviceName ?? "",
    runtime: template?.runtime ?? "",
    mode: template?.engine.mode ?? "chat",
    revision: "",
    address: "",
    port: state.past.history.port ?? 0,
    claimBytes: Math.max(replica?.spec.memory.claimBytes ?? 0, own, footprint),
    drainSeconds: replica?.spec.drainSeconds ?? 0,
    startedAtMs: context.ports.clock.nowMs(),
    readyAtMs: context.ports.clock.nowMs(),
  };
}
