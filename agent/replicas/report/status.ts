/** The status an agent applies for a replica: everything it knows, noise left out. Pure. */

import { setCondition } from "../../../src/api/conditions.ts";
import { createTrimmer } from "../../../src/api/crd/fit.ts";
import {
  type InferenceReplicaStatus,
  inferenceReplicaStatusSchema,
  type ReplicaTransition,
} from "../../../src/api/inference-replica.ts";
import { isDeepEqual } from "../../../src/util/deep-equal.ts";
import type { ObservedExit, ObservedReplica } from "../observed.ts";
import type { ReplicaPlan } from "../step.ts";

const PROGRESS_SHARE = 0.05;
const fitStatus = createTrimmer(inferenceReplicaStatusSchema);
/** A footprint is published again when it has changed by more than this fraction. */
const FOOTPRINT_SHARE = 0.05;
const SAME_TIME_MS = 1_000;

/** What status shows beside the plan and the observation, as people read it: wall times, figures of the engine. */
export interface ReplicaStatusFacts {
  readonly generation: number;
  readonly startedAtIso?: string;
  readonly readyAtIso?: string;
  readonly contextPerSlot?: number;
  /** `nextTryAt` of the plan as people read it. */
  readonly nextTryIso?: string;
  readonly transitions?: readonly ReplicaTransition[];
  /** When progress was last written, on the clock of `now`. */
  readonly progressWrittenAt?: number;
}

/** The complete status to apply. `previous` is what the API server holds; equal means nothing to send. */
export function replicaStatus(
  plan: ReplicaPlan,
  observed: ObservedReplica,
  previous: InferenceReplicaStatus | undefined,
  facts: ReplicaStatusFacts,
  time: { readonly now: number; readonly iso: string; readonly progressMs: number },
): InferenceReplicaStatus {
  const { run, record, crashes, model } = observed;
  const { message } = plan;
  const isLive = run.at === "running" || run.at === "starting";
  const progress = progressOf(observed, previous, facts, time);
  const conditions = setCondition(
    previous?.conditions?.filter((condition) => condition.type === "Ready"),
    {
      type: "Ready",
      status: plan.phase === "Ready" ? "True" : "False",
      reason: plan.reason,
      message,
      observedGeneration: facts.generation,
    },
    time.iso,
  );
  return fitStatus({
    phase: plan.phase,
    reason: plan.reason,
    message,
    observedGeneration: facts.generation,
    ...defined("progress", progress),
    ...defined("port", record?.port),
    ...defined("pid", run.at === "running" ? run.pid : undefined),
    ...defined("startedAt", isLive ? facts.startedAtIso : undefined),
    ...defined("readyAt", isLive ? facts.readyAtIso : undefined),
    ...defined("nextTryAt", steadyTime(facts.nextTryIso, previous?.nextTryAt)),
    restarts: crashes.restarts,
    ...defined("contextPerSlot", isLive ? facts.contextPerSlot : undefined),
    ...defined("lastExit", crashes.lastExit === undefined ? undefined : exitOf(crashes.lastExit)),
    ...defined("memory", memoryOf(observed, previous)),
    ...defined("model", modelOf(model, previous)),
    ...defined("transitions", transitionsOf(facts)),
    conditions,
  });
}

/**
 * True when `current` already says all that `next` says; conditions of other writers do not count. Nor do transitions:
 * a phase that began and ended between two writes is published with the next one, and causes none.
 */
export function isSameStatus(
  next: InferenceReplicaStatus,
  current: InferenceReplicaStatus | undefined,
): boolean {
  const own = current?.conditions?.filter((condition) => condition.type === "Ready");
  return isDeepEqual(next, { ...current, conditions: own, transitions: next.transitions });
}

/** Progress is published at most every 5 s and 5 %, so that a download does not wake every watcher all the time. */
function progressOf(
  { model }: ObservedReplica,
  previous: InferenceReplicaStatus | undefined,
  facts: ReplicaStatusFacts,
  { now, progressMs }: { readonly now: number; readonly progressMs: number },
): InferenceReplicaStatus["progress"] {
  if (model.at !== "fetching" || (model.bytes === 0 && model.totalBytes === undefined)) return undefined;
  const next = {
    bytes: model.bytes,
    ...defined("totalBytes", model.totalBytes),
    ...defined(
      "bytesPerSecond",
      model.bytesPerSecond === undefined ? undefined : Math.round(model.bytesPerSecond),
    ),
  };
  const before = previous?.progress;
  if (before === undefined || facts.progressWrittenAt === undefined) return next;
  const total = model.totalBytes ?? before.totalBytes;
  const moved = model.bytes - before.bytes;
  const isFarEnough = total === undefined || total === 0 || moved < 0 || moved >= total * PROGRESS_SHARE;
  const isLateEnough = now - facts.progressWrittenAt >= progressMs;
  return isFarEnough && isLateEnough ? next : before;
}

/** A new agent that has not inspected the model yet keeps what status says of it. */
function modelOf(
  model: ObservedReplica["model"],
  previous: InferenceReplicaStatus | undefined,
): InferenceReplicaStatus["model"] {
  if (model.at === "unknown") return previous?.model;
  return model.at === "stored"
    ? { sizeBytes: model.sizeBytes, ...defined("sha256", model.sha256), ...defined("gguf", model.gguf) }
    : undefined;
}

function transitionsOf({ transitions = [] }: ReplicaStatusFacts): ReplicaTransition[] | undefined {
  return transitions.length === 0 ? undefined : [...transitions];
}

function exitOf({
  code,
  signal,
  killedByUs,
  reason,
  at,
  logTail,
}: ObservedExit): InferenceReplicaStatus["lastExit"] {
  return { ...defined("code", code), ...defined("signal", signal), killedByUs, reason, at, logTail };
}

function memoryOf(
  observed: ObservedReplica,
  previous: InferenceReplicaStatus | undefined,
): InferenceReplicaStatus["memory"] {
  const { record, run } = observed;
  if (record === undefined) return undefined;
  const isSameProcess = run.at === "running" && run.pid === previous?.pid;
  const before = isSameProcess ? previous?.memory?.footprintBytes : undefined;
  const seen = run.at === "running" ? observed.footprint?.bytes : undefined;
  return {
    claimBytes: record.claimBytes,
    ...defined("claimBasis", basisOf(observed.model, previous)),
    ...defined("footprintBytes", steady(seen, before)),
  };
}

/** A new agent that has not inspected the model yet keeps it. */
function basisOf(
  model: ObservedReplica["model"],
  previous: InferenceReplicaStatus | undefined,
): string | undefined {
  if (model.at !== "stored") return previous?.memory?.claimBasis;
  return model.claim?.at === "estimated" ? model.claim.basis : undefined;
}

/** A footprint fluctuates; only a real change is published. */
function steady(seen: number | undefined, before: number | undefined): number | undefined {
  if (seen === undefined || before === undefined) return seen ?? before;
  return Math.abs(seen - before) > before * FOOTPRINT_SHARE ? seen : before;
}

/** One absolute time, written once: two clocks read a moment later may name the second after it. */
function steadyTime(next: string | undefined, before: string | undefined): string | undefined {
  if (next === undefined || before === undefined) return next;
  return Math.abs(Date.parse(next) - Date.parse(before)) <= SAME_TIME_MS ? before : next;
}

function defined<K extends string, V>(key: K, value: V | undefined): Partial<Record<K, V>> {
  return value === undefined ? {} : ({ [key]: value } as Record<K, V>);
}
