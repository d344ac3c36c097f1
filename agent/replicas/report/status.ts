/** The status that the agent applies for a replica. Small fluctuations are not published. Pure. */

import { setCondition } from "../../../src/api/conditions.ts";
import { createTrimmer } from "../../../src/api/crd/fit.ts";
import type { Performance } from "../../../src/api/fields/performance.ts";
import {
  type InferenceReplicaStatus,
  inferenceReplicaStatusSchema,
  type ReplicaTransition,
} from "../../../src/api/inference-replica.ts";
import { duePerformance } from "../../../src/engines/live-performance.ts";
import { isDeepEqual } from "../../../src/util/deep-equal.ts";
import type { HistoryExit, ObservedReplica } from "../evidence/observed.ts";
import type { ReplicaPlan } from "../state/step.ts";

const PROGRESS_SHARE = 0.05;
const fitStatus = createTrimmer(inferenceReplicaStatusSchema);
/** A footprint is published again when it has changed by more than this fraction. */
const FOOTPRINT_SHARE = 0.05;
const SAME_TIME_MS = 1_000;

/** Fields of the status in addition to the plan and the observation: wall times and figures of the engine. */
export interface ReplicaStatusFacts {
  readonly generation: number;
  readonly startedAtIso?: string;
  readonly readyAtIso?: string;
  readonly contextPerSlot?: number;
  /** `nextTryAt` of the plan as wall time. */
  readonly nextTryIso?: string;
  readonly transitions: readonly ReplicaTransition[];
  /** When progress was last written, on the clock of `now`. */
  readonly progressWrittenAt?: number;
  /** The exact live performance; undefined if nothing is known about this run yet. */
  readonly performance?: Performance;
  /** When a change of the performance was last written, on the clock of `now`. */
  readonly performanceWrittenAt?: number;
}

interface ReportTime {
  readonly now: number;
  readonly iso: string;
  readonly progressMs: number;
  readonly performanceMs: number;
}

/** The complete status to apply. `previous` is the status on the API server. */
export function replicaStatus(
  plan: ReplicaPlan,
  observed: ObservedReplica,
  previous: InferenceReplicaStatus | undefined,
  facts: ReplicaStatusFacts,
  time: ReportTime,
): InferenceReplicaStatus {
  const { run, record, crashes, model } = observed;
  const { message } = plan;
  const isLive = run.at === "running" || run.at === "starting";
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
  const lastExit = crashes.lastExit && omitMessage(crashes.lastExit);
  const status: InferenceReplicaStatus = {
    phase: plan.phase,
    reason: plan.reason,
    message,
    observedGeneration: facts.generation,
    progress: progressOf(observed, previous, facts, time),
    port: record?.port,
    pid: run.at === "running" ? run.pid : undefined,
    startedAt: isLive ? facts.startedAtIso : undefined,
    readyAt: isLive ? facts.readyAtIso : undefined,
    nextTryAt: steadyTime(facts.nextTryIso, previous?.nextTryAt),
    restarts: crashes.restarts,
    contextPerSlot: isLive ? facts.contextPerSlot : undefined,
    lastExit,
    memory: memoryOf(observed, previous),
    performance: performanceOf(observed, previous, facts, time),
    model: modelOf(model, previous),
    transitions: facts.transitions.length === 0 ? undefined : [...facts.transitions],
    conditions,
  };
  return fitStatus(status);
}

/**
 * True if nothing has to be written. Conditions of other writers are ignored, and so are transitions: a phase that began
 * and ended between two writes is published with the next write and does not cause one.
 */
export function isSameStatus(
  next: InferenceReplicaStatus,
  current: InferenceReplicaStatus | undefined,
): boolean {
  const own = current?.conditions?.filter((condition) => condition.type === "Ready");
  return isDeepEqual(next, { ...current, conditions: own, transitions: next.transitions });
}

/** Progress is published at most every 5 s and every 5 %, so that a download does not wake every watcher all the time. */
function progressOf(
  { model }: ObservedReplica,
  previous: InferenceReplicaStatus | undefined,
  facts: ReplicaStatusFacts,
  { now, progressMs }: ReportTime,
): InferenceReplicaStatus["progress"] {
  if (model.at !== "fetching" || (model.bytes === 0 && model.totalBytes === undefined)) return undefined;
  const next = {
    bytes: model.bytes,
    totalBytes: model.totalBytes,
    bytesPerSecond: model.bytesPerSecond && Math.round(model.bytesPerSecond),
  };
  const before = previous?.progress;
  if (before === undefined || facts.progressWrittenAt === undefined) return next;
  const total = model.totalBytes ?? before.totalBytes;
  const moved = model.bytes - before.bytes;
  const isFarEnough = total === undefined || total === 0 || moved < 0 || moved >= total * PROGRESS_SHARE;
  const isLateEnough = now - facts.progressWrittenAt >= progressMs;
  return isFarEnough && isLateEnough ? next : before;
}

/** A new agent that has not inspected the model yet keeps the published value. */
function modelOf(
  model: ObservedReplica["model"],
  previous: InferenceReplicaStatus | undefined,
): InferenceReplicaStatus["model"] {
  if (model.at === "unknown") return previous?.model;
  return model.at === "stored"
    ? { sizeBytes: model.sizeBytes, sha256: model.sha256, gguf: model.gguf }
    : undefined;
}

/** The message is shown by the plan that reports the exit. */
function omitMessage({ message: _, ...exit }: HistoryExit): InferenceReplicaStatus["lastExit"] {
  return exit;
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
    claimBasis: basisOf(observed.model, previous),
    footprintBytes: steady(seen, before),
  };
}

/** A new agent keeps what was published about the same process until it has two readings. */
function performanceOf(
  { run }: ObservedReplica,
  previous: InferenceReplicaStatus | undefined,
  { performance, performanceWrittenAt: writtenAt }: ReplicaStatusFacts,
  { now, performanceMs: everyMs }: ReportTime,
): InferenceReplicaStatus["performance"] {
  if (run.at !== "running") return undefined;
  const before = run.pid === previous?.pid ? previous?.performance : undefined;
  return performance === undefined
    ? before
    : duePerformance(before, performance, { writtenAt, now, everyMs }).performance;
}

/** A new agent that has not inspected the model yet keeps the published basis. */
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

/** An absolute time is written once: read again a moment later, the clocks may yield the next second. */
function steadyTime(next: string | undefined, before: string | undefined): string | undefined {
  if (next === undefined || before === undefined) return next;
  return Math.abs(Date.parse(next) - Date.parse(before)) <= SAME_TIME_MS ? before : next;
}
