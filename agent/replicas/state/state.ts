/** All that this process knows of one replica, each fact in the case it belongs to. Each field has one module that writes it. */

import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { ObjectRef } from "../../../src/kube/types.ts";
import type { Log } from "../../../src/util/ports.ts";
import type { Moment, ObservedReplica, Slice } from "../observed.ts";
import type { ReplicaPlan } from "../step.ts";
import type { ReplicaCounts } from "./counts.ts";
import type { PastRuns } from "./history.ts";
import type { Jobs } from "./jobs.ts";
import type { ChangeMonitor } from "./replica-log.ts";
import { type EngineState, runOf } from "./run.ts";
import type { WeightsState } from "./weights.ts";

export interface ReplicaState {
  readonly uid: string;
  readonly dir: string;
  /** Names the replica in every line. */
  readonly log: Log;
  readonly jobs: Jobs;
  readonly counts: ReplicaCounts;
  readonly repeated: ChangeMonitor;
  readonly wish: DesiredReplica;
  /** Written by `run.ts` alone, as the slice of the run. */
  readonly engine: EngineState;
  readonly slice: Omit<Slice, "state">;
  /** Written by `weights.ts` alone. */
  readonly weights: WeightsState;
  /** Written by `history.ts` alone. */
  readonly past: PastRuns;
  readonly shown: PublishedState;
  /** The last write of engine.json; written by `keep-record.ts` alone. */
  readonly written: Promise<void>;
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

/** The last plan, and what of it was published. */
export interface PublishedState {
  readonly plan?: ReplicaPlan;
  readonly observed?: ObservedReplica;
  /** Phase and reason of the last Event. */
  readonly event?: { readonly phase: string; readonly reason: string };
  readonly progressWrittenAt?: number;
}

/** The replica as last seen, from the API server or on disk. */
export function replicaOf({ wish }: ReplicaState): InferenceReplica | undefined {
  return wish.at === "unknown" ? undefined : wish.replica;
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
  if (text === undefined || Number.isNaN(deadlineAt)) writable(state).wish = { at, replica };
  else
    writable(state).wish = {
      at,
      replica,
      drainBy: before?.text === text ? before : { text, at: deadlineAt },
    };
}

/** The API server has no such replica any more; what it was stays known. */
export function setGone(state: ReplicaState): void {
  writable(state).wish = state.wish.at === "unknown" ? { at: "gone" } : { ...state.wish, at: "gone" };
}

export function setShown(state: ReplicaState, change: Partial<PublishedState>): void {
  writable(state).shown = { ...state.shown, ...change };
}

/** `wish` and `shown` are written here, all else by the module that it names. */
function writable(state: ReplicaState): { wish: DesiredReplica; shown: PublishedState } {
  return state;
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
