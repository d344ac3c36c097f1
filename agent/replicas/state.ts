/** All that is known about one replica in this process. Only the key's own queue run and its jobs change it. */
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { Generated } from "../../src/engines/speed.ts";
import type { ObjectRef } from "../../src/kube/types.ts";
import type { Log } from "../../src/ports.ts";
import type { Moment } from "../../src/replica/desired.ts";
import type { Quiet } from "../../src/replica/evidence/quiet.ts";
import type { Suspicion } from "../../src/replica/evidence/suspicion.ts";
import { NO_WORK_SEEN, type Work } from "../../src/replica/evidence/work.ts";
import type {
  Footprint,
  Health,
  Launch,
  ModelState,
  Observed,
  RequestProof,
  RunRecord,
  Signals,
  Slice,
} from "../../src/replica/observed.ts";
import type { ReplicaPlan } from "../../src/replica/step.ts";
import type { EngineProcess } from "../process/engine-process.ts";
import type { StoredModel } from "../store/types.ts";
import { type EngineFile, recordOf } from "./files/engine-record.ts";
import type { History } from "./files/history.ts";
import type { Jobs } from "./jobs.ts";
import type { ReplicaCounts } from "./metrics/counts.ts";
import type { Sayings } from "./report/sayings.ts";

/** Facts that belong to one run and are void with its end. */
export interface RunFacts {
  health: Health;
  request: RequestProof;
  work: Work;
  /** When the gauges were last asked for, on the monotonic clock. */
  gaugesAt?: number;
  /** What it had generated when its speed was last measured. An adopted engine's whole life is one measurement. */
  generated?: Generated;
  /** Since when it has had no work, on the monotonic clock; absent while it has, or nobody looked. */
  idleSince?: number | undefined;
  suspicion: Suspicion;
  quiet: Quiet;
  signals: Signals;
  slice: Omit<Slice, "state">;
  logBytes: number;
  /** Up to where its log was looked through for errors; absent before the first look. */
  logSeenTo?: number;
  /** Its logged errors were told of. */
  toldErrors?: boolean;
  footprint?: Footprint;
  /** Since when the host's address is another one than the engine's. */
  elsewhereSince?: number;
  apiKey?: string;
}

/** What memory pressure did to a replica, on this process's clock, taken over once as all times of `history`. */
export interface PressureTimes {
  /** Since when it is evicted. */
  readonly awaySince?: number;
  readonly evictedAt: readonly number[];
  /** When the system killed it by itself; absent when it last ended otherwise. */
  readonly killedAt?: number;
}

export interface ReplicaState {
  readonly uid: string;
  readonly dir: string;
  /** Names the replica in every line. */
  readonly log: Log;
  readonly jobs: Jobs;
  readonly counts: ReplicaCounts;
  readonly sayings: Sayings;
  /** The newest the API server showed, or what was on disk. */
  desired: InferenceReplica | undefined;
  /** False while `desired` comes from disk: then its status is not known and none is written. */
  isSeen: boolean;
  /** The API server has no such replica any more. */
  isGone: boolean;
  /** Set with `record`, by `setFile` only. */
  file: EngineFile | undefined;
  /** The same on this process's clock, taken over once: a wall clock that is set later changes no deadline. */
  record: RunRecord | undefined;
  history: History;
  /** `spec.drain.deadline` on this process's clock. */
  deadline?: { readonly text: string; readonly at: number };
  /** `history.backoffUntilMs` on this process's clock. */
  backoffUntil: number | undefined;
  pressureTimes: PressureTimes;
  process: EngineProcess | undefined;
  /** Why it is not known whether an engine runs. */
  adoptionError: string | undefined;
  /** What of that was last said in the log. */
  unreadableWhy: string | undefined;
  model: ModelState;
  stored: { readonly model: StoredModel; readonly draft?: StoredModel } | undefined;
  /** When the weights on disk were last looked at. */
  lookedAt: number | undefined;
  fetchFailures: number;
  launch: Launch;
  launchFailures: number;
  run: RunFacts;
  plan: ReplicaPlan | undefined;
  observed: Observed | undefined;
  /** Phase and reason that the last Event or the object's own status told. */
  told: { readonly phase?: string | undefined; readonly reason?: string | undefined } | undefined;
  progressWrittenAt: number | undefined;
}

export function freshRun(): RunFacts {
  return {
    health: { failuresInARow: 0 },
    request: { at: "none" },
    work: NO_WORK_SEEN,
    suspicion: { at: "none" },
    quiet: {},
    signals: {},
    slice: { wasExposed: false, mayArrive: false },
    logBytes: 0,
  };
}

/** Nothing ran for a while, the engine included: old answers are no evidence, and its start has that much more time. */
export function forgetPause(state: ReplicaState, countedMs: number): void {
  const { run, record } = state;
  const { lastProbeAt: _probe, ...health } = run.health;
  const { lastAt: _read, openAt: _open, ...work } = run.work;
  const { gaugesAt: _gauges, ...kept } = run;
  state.run = { ...kept, health: { ...health, failuresInARow: 0 }, work, quiet: {} };
  if (record !== undefined && record.readyAt === undefined)
    state.record = { ...record, startedAt: record.startedAt + countedMs };
}

/** The run's record and its times on the monotonic clock; times that have not changed keep their place. */
export function setFile(state: ReplicaState, file: EngineFile | undefined, moment: Moment): void {
  const before = state.file;
  const known = state.record;
  state.file = file;
  state.record = undefined;
  if (file === undefined) return;
  const record = recordOf(file, moment);
  if (before === undefined || known === undefined || before.runId !== file.runId) {
    state.record = record;
    return;
  }
  const { readyAt = record.readyAt } = before.readyAtMs === file.readyAtMs ? known : record;
  const stop = JSON.stringify(before.stop) === JSON.stringify(file.stop) ? known.stop : record.stop;
  const { readyAt: _ready, stop: _stop, ...rest } = record;
  state.record = {
    ...rest,
    startedAt: known.startedAt,
    ...(readyAt === undefined ? {} : { readyAt }),
    ...(stop === undefined ? {} : { stop }),
  };
}

/** Namespace and name, from the object or from what was written down at the start; undefined if neither is there. */
export function refOf(state: ReplicaState): (ObjectRef & { readonly namespace: string }) | undefined {
  const { namespace = "", name } = state.desired?.metadata ?? { name: "", ...state.file };
  return name === "" ? undefined : { namespace, name };
}
