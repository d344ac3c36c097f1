/** The first look of a fresh agent: what the last one wanted, what it reserved, and what still runs. */
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { RunnerContext } from "./context.ts";
import { type EngineFile, readEngineFile } from "./files/engine-record.ts";
import { readHistory } from "./files/history.ts";
import { createJobs } from "./jobs.ts";
import { createReplicaCounts } from "./metrics/counts.ts";
import { pressureTimesOf } from "./pressure.ts";
import { createReplicaLog } from "./report/replica-log.ts";
import { createSayings } from "./report/sayings.ts";
import { freshRun, type ReplicaState, refOf, setFile } from "./state.ts";
import { claimModel, lookOnDisk } from "./work/fetch.ts";
import { noteUnreadable, readopt } from "./work/launch.ts";
import { readKeyFile } from "./work/secrets.ts";

/** The state of one replica, with what its directory remembers; nothing is started or signalled. */
export function openState(uid: string, context: RunnerContext): ReplicaState {
  const dir = join(context.ports.stateDir, "engines", uid);
  const history = readHistory(dir);
  const { wallMs, monotonicMs } = context.moment();
  const left = history.backoffUntilMs === undefined ? 0 : history.backoffUntilMs - wallMs;
  const log = createReplicaLog(context.log, uid, () => refOf(state));
  const state: ReplicaState = {
    ...{ uid, dir, log },
    jobs: createJobs({
      ...{ clock: context.ports.clock, log },
      signal: context.signal,
      onDone: () => context.enqueue(uid),
      onRetry: (delayMs) => void context.ports.clock.after(delayMs, () => context.enqueue(uid)),
    }),
    desired: undefined,
    isSeen: false,
    isGone: false,
    file: undefined,
    record: undefined,
    history,
    // A wall clock that was set must not hold an engine back for longer than the longest backoff.
    backoffUntil: left <= 0 ? undefined : monotonicMs + Math.min(left, context.timings.backoffMaxMs * 1.2),
    pressureTimes: pressureTimesOf(history, { wallMs, monotonicMs }),
    process: undefined,
    adoptionError: undefined,
    unreadableWhy: undefined,
    model: { at: "unknown" },
    stored: undefined,
    lookedAt: undefined,
    counts: createReplicaCounts(),
    sayings: createSayings(log),
    fetchFailures: 0,
    launch: { at: "untried" },
    launchFailures: 0,
    run: freshRun(),
    plan: undefined,
    observed: undefined,
    told: undefined,
    progressWrittenAt: undefined,
  };
  if (history.port !== undefined) context.admission.keepPort(uid, history.port);
  context.states.set(uid, state);
  return state;
}

/** Every claim is counted before anything may be admitted, then all engines are taken up side by side. */
export async function adoptAll(context: RunnerContext): Promise<void> {
  const folder = join(context.ports.stateDir, "engines");
  if (context.ports.isDryRun !== true) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    context.desiredFiles.sweep();
  }
  const desired = context.desiredFiles.readAll();
  const uids = new Set([...foldersIn(folder), ...desired.keys()]);
  const states = [...uids].map((uid) => {
    const state = openState(uid, context);
    state.desired = desired.get(uid);
    takeRecord(state, context);
    return state;
  });
  await Promise.all(states.map((state) => adoptProcess(state, context)));
}

/** What is no folder is not ours: file managers leave their own files everywhere. */
function foldersIn(folder: string): readonly string[] {
  if (!existsSync(folder)) return [];
  const entries = readdirSync(folder, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}

/** Looks again into a directory that could not be read. */
export async function adoptAgain(state: ReplicaState, context: RunnerContext): Promise<void> {
  takeRecord(state, context);
  await adoptProcess(state, context);
}

async function adoptProcess(state: ReplicaState, context: RunnerContext): Promise<void> {
  if (state.adoptionError !== undefined) return;
  await readopt(state, context);
  const adopted = state.process;
  if (adopted === undefined) return;
  const file = state.file ?? (await strangeRecord(state, context));
  // It may have ended meanwhile, and a pass may have cleared it away or started its successor.
  if (state.process !== adopted) return;
  setFile(state, file, context.moment());
  // What the last agent sent may still be on its way.
  state.run.slice = { ...state.run.slice, mayArrive: true };
  context.admission.adopt(state.uid, { claimBytes: file.claimBytes, port: file.port });
  const apiKey = readKeyFile(state.dir);
  if (apiKey !== undefined) state.run.apiKey = apiKey;
  claimModel(state, context);
  state.log.info({ state: state.process.state() }, "engine adopted");
}

function takeRecord(state: ReplicaState, context: RunnerContext): void {
  const file = readRecord(state);
  if (file === undefined || file === "unreadable") return;
  setFile(state, file, context.moment());
  context.admission.adopt(state.uid, { claimBytes: file.claimBytes, port: file.port });
  if (file.contents !== undefined) context.ports.store.hold(state.uid, file.contents);
}

/** A record that cannot be read may be that of a running engine: it stops nobody but its own replica. */
function readRecord(state: ReplicaState): ReturnType<typeof readEngineFile> {
  try {
    const file = readEngineFile(state.dir);
    state.adoptionError = undefined;
    return file;
  } catch (error) {
    noteUnreadable(state, error);
    return undefined;
  }
}

/** An engine of ours whose record is lost: of no known revision, so it is drained and replaced, never doubled. */
async function strangeRecord(state: ReplicaState, context: RunnerContext): Promise<EngineFile> {
  const claimBytes = await takenBytes(state, context);
  const { desired } = state;
  state.log.warn({}, "an engine runs without a readable record; it will be replaced");
  return {
    version: 1,
    runId: `unknown-${state.uid}`,
    uid: state.uid,
    namespace: desired?.metadata.namespace ?? "",
    name: desired?.metadata.name ?? "",
    service: desired?.spec.template.serviceName ?? "",
    runtime: desired?.spec.template.runtime ?? "",
    mode: desired?.spec.template.engine.mode ?? "chat",
    revision: "",
    address: "",
    port: state.history.port ?? 0,
    claimBytes,
    drainSeconds: desired?.spec.drainSeconds ?? 0,
    argv: [],
    startedAtMs: context.ports.clock.nowMs(),
    readyAtMs: context.ports.clock.nowMs(),
  };
}

/** Without a record the claim is made from all that can be seen; such an engine counts as what it takes, at least. */
async function takenBytes(state: ReplicaState, context: RunnerContext): Promise<number> {
  const run = state.process?.state();
  const [footprint = 0] = await Promise.all([
    run?.at === "running" ? context.ports.footprintBytes(run.pid) : undefined,
    lookOnDisk(state, context),
  ]);
  const { model, desired } = state;
  const own = model.at === "stored" && model.claim?.at === "estimated" ? model.claim.bytes : 0;
  return Math.max(desired?.spec.memory.claimBytes ?? 0, own, footprint);
}
