/** All that this process knows of one replica, each fact in the case it belongs to. Only the key's own queue and its jobs change it. */

import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { Generated } from "../../../src/engines/speed.ts";
import type { ObjectRef } from "../../../src/kube/types.ts";
import type { Log } from "../../../src/util/ports.ts";
import type { Instance } from "../../instances/instance.ts";
import type { StoredModel } from "../../store/types.ts";
import type { Quiet } from "../evidence/quiet.ts";
import type { Suspicion } from "../evidence/suspicion.ts";
import { NO_OBSERVED_WORK, type Work } from "../evidence/work.ts";
import type {
  Footprint,
  HealthRecord,
  Launch,
  ModelState,
  Moment,
  ObservedReplica,
  RequestProof,
  RouteHealth,
  RunRecord,
  Slice,
} from "../observed.ts";
import type { ReplicaPlan } from "../step.ts";
import type { ReplicaCounts } from "./counts.ts";
import { type EngineFile, recordOf } from "./engine-record.ts";
import type { PastRuns } from "./history.ts";
import type { Jobs } from "./jobs.ts";
import type { ChangeMonitor } from "./replica-log.ts";

export interface ReplicaState {
  readonly uid: string;
  readonly dir: string;
  /** Names the replica in every line. */
  readonly log: Log;
  readonly jobs: Jobs;
  readonly counts: ReplicaCounts;
  readonly repeated: ChangeMonitor;
  wish: DesiredReplica;
  engine: EngineState;
  weights: WeightsState;
  /** Of the replica's EndpointSlice, from the start of a run on; its state is read when it is needed. */
  slice: Omit<Slice, "state">;
  past: PastRuns;
  shown: PublishedState;
  /** The last write of engine.json. */
  written: Promise<void>;
}

/** What the API server wants of the replica. */
export type DesiredReplica =
  /** An engine was found, and its replica is not known yet. */
  | { readonly at: "unknown" }
  /** kept: from this host's disk, so its status is not known and none is written. seen: from the API server. */
  | { readonly at: "kept" | "seen"; readonly replica: InferenceReplica; readonly drainBy?: DrainDeadline }
  /** The API server has no such replica any more. */
  | { readonly at: "gone"; readonly replica?: InferenceReplica; readonly drainBy?: DrainDeadline };

/** `spec.drain.deadline`, placed on this process's clock once: a wall clock that is set later moves no deadline. */
export interface DrainDeadline {
  readonly text: string;
  readonly at: number;
}

export type EngineState =
  | { readonly at: "none"; readonly launch: Launch }
  /** Its folder cannot be read, so whether an engine runs is not known. */
  | { readonly at: "unreadable"; readonly why: string }
  | EngineRun;

/** One run of an engine, from its start or adoption until nothing of it is left. */
export interface EngineRun {
  readonly at: "run";
  readonly instance: Instance;
  /** Set with `record`, by `setFile` only. */
  file: EngineFile;
  /** The same on this process's clock, taken over once: a wall clock that is set later changes no deadline. */
  record: RunRecord;
  apiKey: string | undefined;
  health: HealthRecord;
  route?: RouteHealth;
  /** When its Secrets were last read, on the monotonic clock, and why they cannot be used. */
  secrets: { readonly at: number; readonly problem?: string };
  request: RequestProof;
  work: Work;
  suspicion: Suspicion;
  quiet: Quiet;
  footprint?: Footprint;
  /** When the gauges were last read, on the monotonic clock. */
  gaugesAt?: number | undefined;
  /** What it had generated when its speed was last measured. An adopted engine's whole life is one measurement. */
  generated?: Generated;
  /** Since when it has had no work, on the monotonic clock; absent while it has, or none was read. */
  idleSince?: number | undefined;
  logBytes: number;
  /** Up to where its log was searched for errors; absent before the first time. */
  logSeenTo?: number;
  /** An Event has reported its logged errors. */
  hasReportedErrors?: boolean;
  /** Since when the host's address is another one than the engine's. */
  elsewhereSince?: number | undefined;
  /** When it was asked to stop, on the monotonic clock. */
  stopAskedAt?: number;
}

/** All weights of a replica. */
export interface WeightFiles {
  readonly model: StoredModel;
  readonly draft?: StoredModel;
  /** In the order of the template's. */
  readonly loraAdapters: readonly StoredModel[];
}

/** The planner's view, and where the files are. */
export type WeightsState =
  | Exclude<ModelState, { readonly at: "stored" }>
  | (Extract<ModelState, { readonly at: "stored" }> & {
      readonly files: WeightFiles;
      /** When its header was read, on the monotonic clock. */
      readonly inspectedAt: number;
      /** A file of it is damaged and was set aside. */
      readonly isDamaged?: true;
    });

/** The last plan, and what of it was published. */
export interface PublishedState {
  plan?: ReplicaPlan;
  observed?: ObservedReplica;
  /** Phase and reason of the last Event. */
  event?: { readonly phase: string; readonly reason: string };
  progressWrittenAt?: number;
}

/** For an engine that was not probed yet. */
export const NO_EVIDENCE = {
  health: { failuresInARow: 0 },
  request: { at: "none" },
  work: NO_OBSERVED_WORK,
  suspicion: { at: "none" },
  quiet: {},
} as const satisfies Partial<EngineRun>;

export const NOTHING_RUNS: EngineState = { at: "none", launch: { at: "untried" } };
export const NEVER_ANNOUNCED: Omit<Slice, "state"> = { wasExposed: false, mayArrive: false };

/** The replica as last seen, from the API server or on disk. */
export function replicaOf({ wish }: ReplicaState): InferenceReplica | undefined {
  return wish.at === "unknown" ? undefined : wish.replica;
}

export function runOf({ engine }: ReplicaState): EngineRun | undefined {
  return engine.at === "run" ? engine : undefined;
}

/** The API server's answer to our own write. It may be older than what is known, and does not bring back a replica that is gone. */
export function setFromResponse(state: ReplicaState, answer: InferenceReplica, moment: Moment): void {
  const at = state.wish.at === "unknown" ? "seen" : state.wish.at;
  setDesiredObject(state, at, newerOf(replicaOf(state), answer), moment);
}

/** Takes over the object, and its drain deadline on this process's clock. */
export function setDesiredObject(
  state: ReplicaState,
  at: Exclude<DesiredReplica["at"], "unknown">,
  replica: InferenceReplica,
  { wallMs, monotonicMs }: Moment,
): void {
  const text = replica.spec.drain?.deadline;
  const before = state.wish.at === "unknown" ? undefined : state.wish.drainBy;
  const deadlineAt = text === undefined ? Number.NaN : Date.parse(text) - wallMs + monotonicMs;
  if (text === undefined || Number.isNaN(deadlineAt)) state.wish = { at, replica };
  else state.wish = { at, replica, drainBy: before?.text === text ? before : { text, at: deadlineAt } };
}

/** The API server has no such replica any more; what it was stays known. */
export function setGone(state: ReplicaState): void {
  state.wish = state.wish.at === "unknown" ? { at: "gone" } : { ...state.wish, at: "gone" };
}

/** A run of which only the record is known yet. */
export function newEngineRun(
  instance: Instance,
  file: EngineFile,
  apiKey: string | undefined,
  moment: Moment,
): EngineRun {
  return {
    at: "run",
    instance,
    file,
    record: recordOf(file, moment),
    apiKey,
    ...NO_EVIDENCE,
    // A new agent reads them soon; a new engine has just got them.
    secrets: { at: file.readyAtMs === undefined ? moment.monotonicMs : Number.NEGATIVE_INFINITY },
    logBytes: 0,
  };
}

/** The engine was paused too: old answers are no evidence, and its start gets that much more time. */
export function forgetPause(state: ReplicaState, countedMs: number): void {
  const run = runOf(state);
  if (run === undefined) return;
  const { lastProbeAt: _probe, silent: _silent, ...health } = run.health;
  const { lastAt: _read, openAt: _open, ...work } = run.work;
  run.gaugesAt = undefined;
  run.health = { ...health, failuresInARow: 0 };
  run.work = work;
  run.quiet = {};
  if (run.record.readyAt === undefined)
    run.record = { ...run.record, startedAt: run.record.startedAt + countedMs };
}

/** The run's record and its times on the monotonic clock; times that have not changed keep their place. */
export function setFile(run: EngineRun, file: EngineFile, moment: Moment): void {
  const { file: before, record: known } = run;
  const record = recordOf(file, moment);
  const { readyAt = record.readyAt } = before.readyAtMs === file.readyAtMs ? known : record;
  const stop = JSON.stringify(before.stop) === JSON.stringify(file.stop) ? known.stop : record.stop;
  const { readyAt: _ready, stop: _stop, ...rest } = record;
  run.file = file;
  run.record = {
    ...rest,
    startedAt: known.startedAt,
    ...(readyAt === undefined ? {} : { readyAt }),
    ...(stop === undefined ? {} : { stop }),
  };
}

/** Namespace and name, from the object or from what was written down at the start; undefined if neither is there. */
export function refOf(state: ReplicaState): (ObjectRef & { readonly namespace: string }) | undefined {
  const { namespace = "", name } = replicaOf(state)?.metadata ?? { name: "", ...runOf(state)?.file };
  return name === "" ? undefined : { namespace, name };
}

/** The newer of two versions of one object; what cannot be compared counts as newer. */
export function newerOf(known: InferenceReplica | undefined, found: InferenceReplica): InferenceReplica {
  if (known === undefined || known.metadata.uid !== found.metadata.uid) return found;
  const before = version(known);
  const after = version(found);
  return before !== undefined && after !== undefined && after < before ? known : found;
}

function version(object: InferenceReplica): bigint | undefined {
  const text = object.metadata.resourceVersion ?? "";
  return /^\d+$/.test(text) ? BigInt(text) : undefined;
}

/** The engine that it asks for, or that runs where its replica is not known. */
export function replicaRuntime(state: ReplicaState): string {
  return replicaOf(state)?.spec.template.runtime ?? runOf(state)?.file.runtime ?? "";
}

/** What the run that has just ended was started with; undefined if that was not noted before its start. */
export function attemptedWeights({ weights }: ReplicaState): string | undefined {
  return weights.at === "stored" ? weights.weights : undefined;
}
