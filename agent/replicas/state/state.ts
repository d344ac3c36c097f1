/** Everything that this process knows about one replica. Exactly one module writes each field. */

import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { ObjectRef } from "../../../src/kube/types.ts";
import type { Moment } from "../../../src/util/moment.ts";
import type { Log } from "../../../src/util/ports.ts";
import type { ObservedReplica, Slice } from "../evidence/observed.ts";
import type { ReplicaCounts } from "./counts.ts";
import type { PastRuns } from "./history.ts";
import type { Jobs } from "./jobs.ts";
import type { ChangeMonitor } from "./replica-log.ts";
import { type EngineState, runOf } from "./run.ts";
import type { ReplicaPlan } from "./step.ts";
import type { WeightsState } from "./weights.ts";

export interface ReplicaState {
  readonly uid: string;
  readonly dir: string;
  /** Adds the replica's name to every line. */
  readonly log: Log;
  readonly jobs: Jobs;
  readonly counts: ReplicaCounts;
  readonly repeated: ChangeMonitor;
  readonly desired: DesiredReplica;
  /** `engine` and `slice` are written by `run.ts` only. */
  readonly engine: EngineState;
  readonly slice: Omit<Slice, "state">;
  /** Written by `weights.ts` only. */
  readonly weights: WeightsState;
  /** Written by `history.ts` only. */
  readonly past: PastRuns;
  readonly published: PublishedState;
  /** The last write of engine.json. Set by `save-record.ts` only. */
  readonly recordWritten: Promise<void>;
}

/** The replica as the API server requests it. */
export type DesiredReplica =
  /** An engine was found whose replica is not known yet. */
  | { readonly at: "unknown" }
  /** cached: from this host's disk; its status is unknown, so none is written. current: from the API server. */
  | {
      readonly at: "cached" | "current";
      readonly replica: InferenceReplica;
      readonly drainBy?: DrainDeadline;
    }
  /** The API server no longer has the replica. */
  | { readonly at: "deleted"; readonly replica?: InferenceReplica; readonly drainBy?: DrainDeadline };

/** `spec.drain.deadline`, converted to this process's clock once: a wall clock that is set later moves no deadline. */
export interface DrainDeadline {
  readonly text: string;
  readonly at: number;
}

/** The last plan, and which part of it was published. */
export interface PublishedState {
  readonly plan?: ReplicaPlan;
  readonly observed?: ObservedReplica;
  /** Phase and reason of the last Event. */
  readonly event?: { readonly phase: string; readonly reason: string };
  readonly progressWrittenAt?: number;
  readonly performanceWrittenAt?: number;
}

/** The last known replica, from the API server or from disk. */
export function replicaOf({ desired }: ReplicaState): InferenceReplica | undefined {
  return desired.at === "unknown" ? undefined : desired.replica;
}

/** True if only the clients that its spec names may connect to the replica. */
export function isSealed(state: ReplicaState): boolean {
  return replicaOf(state)?.spec.template.transport === "Sealed";
}

/** The clients of a sealed replica, one fingerprint per line; undefined for any other. */
export function clientsOf({ spec }: InferenceReplica): string | undefined {
  if (spec.template.transport !== "Sealed") return undefined;
  return (spec.clientFingerprints ?? []).map((one) => `${one}\n`).join("");
}

/** Takes the API server's response to our own write. It may be older than the known object, and does not restore a deleted replica. */
export function setFromResponse(state: ReplicaState, answer: InferenceReplica, moment: Moment): void {
  const at = state.desired.at === "unknown" ? "current" : state.desired.at;
  setDesiredObject(state, at, newerOf(replicaOf(state), answer), moment);
}

/** Sets the object, and converts its drain deadline to this process's clock. */
export function setDesiredObject(
  state: ReplicaState,
  at: Exclude<DesiredReplica["at"], "unknown">,
  replica: InferenceReplica,
  { wallMs, monotonicMs }: Moment,
): void {
  const text = replica.spec.drain?.deadline;
  const before = state.desired.at === "unknown" ? undefined : state.desired.drainBy;
  const deadlineAt = Date.parse(text ?? "") - wallMs + monotonicMs;
  const next = text === undefined || Number.isNaN(deadlineAt) ? undefined : { text, at: deadlineAt };
  writable(state).desired = { at, replica, drainBy: before?.text === next?.text ? before : next };
}

/** The API server no longer has the replica; the last known object is retained. */
export function markDeleted(state: ReplicaState): void {
  writable(state).desired = { ...state.desired, at: "deleted" };
}

export function setPublished(state: ReplicaState, change: Partial<PublishedState>): void {
  writable(state).published = { ...state.published, ...change };
}

/** This module writes `desired` and `published` only. */
function writable(state: ReplicaState): { desired: DesiredReplica; published: PublishedState } {
  return state;
}

/** Namespace and name, from the object or from the run's record; undefined if there is neither. */
export function refOf(state: ReplicaState): (ObjectRef & { readonly namespace: string }) | undefined {
  const { namespace = "", name } = replicaOf(state)?.metadata ?? { name: "", ...runOf(state)?.file };
  return name === "" ? undefined : { namespace, name };
}

/** The newer of two versions of one object. If they cannot be compared, `found` counts as newer. */
export function newerOf(known: InferenceReplica | undefined, found: InferenceReplica): InferenceReplica {
  if (known === undefined || known.metadata.uid !== found.metadata.uid) return found;
  const before = resourceVersionOf(known);
  const after = resourceVersionOf(found);
  return before !== undefined && after !== undefined && after < before ? known : found;
}

function resourceVersionOf(object: InferenceReplica): bigint | undefined {
  const text = object.metadata.resourceVersion ?? "";
  return /^\d+$/.test(text) ? BigInt(text) : undefined;
}

/** The runtime that the replica requests; if the replica is not known, the one that runs. */
export function replicaRuntime(state: ReplicaState): string {
  return replicaOf(state)?.spec.template.runtime ?? runOf(state)?.file.runtime ?? "";
}

/** Identity of the weights that the last run was started with; undefined if it was not read before the start. */
export function attemptedWeights({ weights }: ReplicaState): string | undefined {
  return weights.at === "stored" ? weights.weights : undefined;
}
