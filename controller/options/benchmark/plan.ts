/** Plans benchmarks: which machine measures what, which results are stored, and which expire. Pure and total. */

import type {
  BenchmarkOrder,
  BenchmarkResult,
  BenchmarkState,
  Measurement,
} from "../../../src/api/benchmark.ts";
import { type ErrorCode, MetalbridgeError } from "../../../src/api/errors.ts";
import type { Host } from "../../../src/api/host.ts";
import type { Model } from "../../../src/api/model.ts";
import { implausibility, noiseOf } from "../../../src/capacity/benchmark/measurement.ts";
import { benchmarkPlanOf } from "../../../src/capacity/benchmark/subject.ts";
import { BENCHMARKS_NAME, type BenchmarkTable } from "../../../src/capacity/benchmark/table.ts";
import type { Fitness } from "../../../src/capacity/fitness.ts";
import { weightsOrderOf } from "../../../src/capacity/prefetch.ts";
import type { Job } from "../../../src/kube/workload-objects.ts";
import { defined } from "../../../src/util/defined.ts";
import { errorMessage } from "../../../src/util/error-message.ts";
import type { Moment } from "../../../src/util/moment.ts";
import type { PodsSettings } from "../../pods/workload/contract.ts";
import {
  type Attempts,
  attemptOf,
  createAttempts,
  type Failures,
  type Machine,
  type Problem,
  withRemedy,
} from "./attempts.ts";
import { benchmarkJob, benchmarkJobName, type JobOrder, type JobState } from "./job.ts";
import { checkedResult, roomIn, validForMs, withoutFuture } from "./results.ts";
import type { Candidate, Target } from "./targets.ts";

/** A Job that this controller created for `model`, and its state. */
export interface ObservedJob {
  readonly job: Job;
  readonly model: Model;
  readonly node: string;
  readonly state: JobState;
}

export interface BenchmarkWorld {
  /** In the order in which they are measured. */
  readonly targets: readonly Target[];
  readonly hosts: readonly Host[];
  readonly jobs: readonly ObservedJob[];
  readonly table: BenchmarkTable;
  readonly isOn: boolean;
  readonly maxAgeMs: number;
  readonly settings: PodsSettings;
  /** Absent without fitness: then any speed is believed. */
  readonly bandwidthOfClass?: Fitness["bandwidthOfClass"] | undefined;
}

/** Facts that no object holds, on the monotonic clock. After a restart, each failed benchmark is retried once. */
export interface BenchmarkMemory {
  readonly failures: Failures;
  /** Start of the current wait, by attempt. */
  readonly waits: ReadonlyMap<string, number>;
}

export const NO_MEMORY: BenchmarkMemory = { failures: new Map(), waits: new Map() };

/** State of a target. A target that no Model wants, and that has no result, is `off`. */
export type TargetState =
  | { readonly at: "measured"; readonly result: BenchmarkResult }
  | { readonly at: "running"; readonly machine: string; readonly why: string }
  | { readonly at: "pending"; readonly why: string }
  | { readonly at: "failed"; readonly code: ErrorCode; readonly message: string }
  | { readonly at: "off" };

/** A Job to be created, and what a refusal by the API server fails. */
export interface StartedJob {
  readonly job: Job;
  readonly target: Target;
  readonly machine: Machine;
}

export interface BenchmarksPlan {
  /** The order of each host that has one; all other hosts have none. */
  readonly orders: ReadonlyMap<string, BenchmarkOrder>;
  readonly createJobs: readonly StartedJob[];
  readonly deleteJobs: readonly Job[];
  readonly store: ReadonlyMap<string, BenchmarkResult>;
  readonly remove: readonly string[];
  readonly states: ReadonlyMap<string, TargetState>;
  /** All results in use, also those that are being measured again, by the key of their target. */
  readonly results: ReadonlyMap<string, BenchmarkResult>;
  readonly memory: BenchmarkMemory;
  /** Failures that this pass has found. */
  readonly failed: Attempts["found"];
  readonly recheckAfterMs: number | undefined;
}

const DAY_MS = 86_400_000;
/** An order moves to an idle host after this time, or fails if the agent does not answer it. */
const WAIT_MS = 15 * 60_000;
/** Machines of a class that try a target before it counts as failed. */
const MACHINES_MAX = 2;
const JOBS_MAX = 2;

/** State of a pass; see BenchmarksPlan. */
interface Pass {
  readonly world: BenchmarkWorld;
  readonly before: BenchmarkMemory;
  readonly now: Moment;
  readonly targets: ReadonlyMap<string, Target>;
  readonly valid: Map<string, BenchmarkResult>;
  /** In use until they are measured again. */
  readonly expired: Map<string, BenchmarkResult>;
  /** Targets that a machine measures, or whose result is being stored. */
  readonly inProgress: Map<string, TargetState>;
  readonly orders: Map<string, BenchmarkOrder>;
  readonly createJobs: StartedJob[];
  readonly deleteJobs: Job[];
  readonly store: Map<string, BenchmarkResult>;
  readonly remove: string[];
  readonly attempts: Attempts;
  readonly waits: Map<string, number>;
  /** Nodes with a Job: two engines on one node would compete. */
  readonly nodesWithJob: Set<string>;
  /** Number of results that still fit in the ConfigMap. Counted once it is needed. */
  room: number | undefined;
  nextMs: number;
}

export function planBenchmarks(world: BenchmarkWorld, before: BenchmarkMemory, now: Moment): BenchmarksPlan {
  const pass: Pass = {
    world,
    before,
    now,
    targets: new Map(world.targets.map((target) => [target.key, target])),
    valid: new Map(),
    expired: new Map(),
    inProgress: new Map(),
    orders: new Map(),
    createJobs: [],
    deleteJobs: [],
    store: new Map(),
    remove: [],
    attempts: createAttempts(before.failures, now.monotonicMs),
    waits: new Map(),
    nodesWithJob: new Set(),
    room: undefined,
    nextMs: Number.POSITIVE_INFINITY,
  };
  for (const [key, result] of world.table.results) keepOrExpire(pass, key, result);
  for (const host of world.hosts) followHost(pass, host);
  for (const job of world.jobs) followJob(pass, job);
  const states = world.targets.map((target) => [target.key, stateOf(pass, target)] as const);
  const { orders, createJobs, deleteJobs, store, remove, attempts, waits } = pass;
  for (const { retryAtMs } of attempts.failures.values()) recheckAt(pass, retryAtMs);
  return {
    orders,
    createJobs,
    deleteJobs,
    store,
    remove,
    failed: attempts.found,
    states: new Map(states),
    results: new Map([...pass.expired, ...pass.valid, ...store]),
    memory: { failures: attempts.failures, waits },
    recheckAfterMs: pass.nextMs === Number.POSITIVE_INFINITY ? undefined : pass.nextMs,
  };
}

/** Plans another pass at this monotonic time; false if the time has passed. */
function recheckAt(pass: Pass, monotonicMs: number): boolean {
  const inMs = monotonicMs - pass.now.monotonicMs;
  if (inMs > 0) pass.nextMs = Math.min(pass.nextMs, inMs);
  return inMs > 0;
}

/** An old figure is better than none: that of a target stays until another one replaces it. */
function keepOrExpire(pass: Pass, key: string, result: BenchmarkResult): void {
  const { now, world } = pass;
  const target = pass.targets.get(key);
  const leftMs = validForMs(result, target?.builds, world.maxAgeMs, now.wallMs);
  if (leftMs <= 0) {
    if (target !== undefined) pass.expired.set(key, result);
    else if (world.isOn) pass.remove.push(key);
    return;
  }
  pass.nextMs = Math.min(pass.nextMs, leftMs, DAY_MS);
  const repaired = withoutFuture(result, now.wallMs);
  if (repaired !== result) pass.store.set(key, repaired);
  pass.valid.set(key, repaired);
}

/** Follows the order that a host has: stores its result, notes its failure, or lets it continue. */
function followHost(pass: Pass, host: Host): void {
  const { order, state } = host.status?.benchmark ?? {};
  const target = order && neededTarget(pass, order.key);
  if (order === undefined || target === undefined) return;
  const { name } = host.metadata;
  const candidate = target.candidates((one) => one === name).find(({ on }) => on === "Hosts");
  const own = isAbout(order, state) ? state : undefined;
  const machine = candidate ?? { name, build: order.build, hasWeights: false, model: target.model };
  if (own?.phase === "Done") {
    // The order stays until the watch shows the stored result, so that nothing is measured twice.
    if (takeResult(pass, target, machine, own.result)) pass.orders.set(name, order);
  } else if (own?.phase === "Failed") {
    const code = own.reason ?? "BenchmarkFailed";
    pass.attempts.fail(target, machine, { code, message: own.message ?? code });
  } else if (candidate?.on === "Hosts" && !pass.attempts.hasFailed(target, candidate)) {
    keepOrder(pass, target, candidate, own);
  }
}

/** Returns false if the machine reports nonsense, noise or a speed that its class cannot have, which counts as a failure, or measured a build that no machine runs anymore. */
function takeResult(
  pass: Pass,
  target: Target,
  machine: Machine,
  measured: Measurement | undefined,
): boolean {
  const noise = measured && noiseOf(measured);
  if (noise !== undefined) {
    pass.attempts.fail(target, machine, { ...withRemedy("BenchmarkUnstable", noise), isTemporary: true });
    return false;
  }
  const { subject, deviceClass, model } = target;
  const bandwidth = pass.world.bandwidthOfClass?.(deviceClass);
  const doubt = measured && implausibility(measured, model, { settings: subject.settings, bandwidth });
  if (doubt !== undefined) {
    pass.attempts.fail(target, machine, withRemedy("BenchmarkImplausible", doubt));
    return false;
  }
  const result = measured && checkedResult(target, machine.name, measured, pass.now.wallMs);
  if (result === undefined) pass.attempts.fail(target, machine, NO_RESULT);
  if (result === undefined || target.builds?.has(result.build) === false) return false;
  pass.store.set(target.key, result);
  pass.inProgress.set(target.key, { at: "measured", result });
  return true;
}

function keepOrder(
  pass: Pass,
  target: Target,
  candidate: Extract<Candidate, { on: "Hosts" }>,
  state: BenchmarkState | undefined,
): void {
  const attempt = attemptOf(candidate.name, target.key);
  if (state?.phase !== "Running") {
    const sinceMs = pass.before.waits.get(attempt) ?? pass.now.monotonicMs;
    if (!recheckAt(pass, sinceMs + WAIT_MS)) {
      if (state === undefined) pass.attempts.fail(target, candidate, NO_ANSWER);
      if (state === undefined || (candidate.isBusy && idleHost(pass, target) !== undefined)) return;
    }
    pass.waits.set(attempt, sinceMs);
  }
  pass.orders.set(candidate.name, orderFor(target, candidate));
  const why = state?.message ?? (state?.phase === "Running" ? "running" : "waiting for the host");
  pass.inProgress.set(target.key, { at: "running", machine: candidate.name, why });
}

function followJob(pass: Pass, { job, model, node, state }: ObservedJob): void {
  const key = pass.world.targets.find((one) => benchmarkJobName(one.key) === job.metadata.name)?.key;
  const needed = key === undefined ? undefined : neededTarget(pass, key);
  const candidate = needed?.candidates((one) => one === node).find(({ on }) => on === "Nodes");
  // Users of another namespace may have a Model with the same content, and a Job for it.
  const isOwn = (candidate?.model ?? needed?.model)?.metadata.uid === model.metadata.uid;
  const target = isOwn ? needed : undefined;
  const machine = candidate ?? { name: node, build: undefined, hasWeights: true, model };
  const isRunning = state.at === "pending" || state.at === "running";
  if (target !== undefined && state.at === "failed") pass.attempts.fail(target, machine, problemOf(state));
  if (target !== undefined && candidate !== undefined && isRunning) {
    pass.nodesWithJob.add(node);
    const why = state.at === "pending" ? state.why : "running";
    pass.inProgress.set(target.key, { at: "running", machine: node, why });
    return;
  }
  const isStored =
    target !== undefined && state.at === "done" && takeResult(pass, target, machine, state.measurement);
  // A pod whose engine crashes exists until the deadline.
  if (!isStored) pass.deleteJobs.push(job);
}

function problemOf({ code, message, isUnscheduled }: Extract<JobState, { at: "failed" }>): Problem {
  if (isUnscheduled !== true) return withRemedy(code, message);
  return { code, message: `${message}; the benchmark is retried after an hour`, isTemporary: true };
}

/** The target, if it still has to be measured and no other machine does it. */
function neededTarget({ targets, valid, inProgress, world }: Pass, key: string): Target | undefined {
  const target = targets.get(key);
  const isNeeded = world.isOn && target?.isWanted === true && !valid.has(key) && !inProgress.has(key);
  return isNeeded ? target : undefined;
}

/** Starts the measurement of a target that nothing measures yet, if a machine is available. */
function stateOf(pass: Pass, target: Target): TargetState {
  const { key } = target;
  const result = pass.valid.get(key);
  if (result !== undefined) return { at: "measured", result };
  const current = pass.inProgress.get(key);
  if (current !== undefined) return current;
  const old = pass.expired.get(key);
  if (!pass.world.isOn || !target.isWanted)
    return old === undefined ? { at: "off" } : { at: "measured", result: old };
  const { failuresOf, hasFailed } = pass.attempts;
  const all = failuresOf(target);
  const failures = all.filter(({ isTemporary }) => !isTemporary);
  const [failure] = failures;
  const hasUntried = all.length === 0 || target.candidates().some((one) => !hasFailed(target, one));
  if (failure !== undefined && (failures.length >= MACHINES_MAX || !hasUntried))
    return { at: "failed", code: failure.code, message: failure.message };
  if (all[0] !== undefined && !hasUntried) return { at: "pending", why: all[0].message };
  const left = target
    .candidates((name) => !pass.orders.has(name))
    .filter((one) => all.length === 0 || !hasFailed(target, one));
  return startOne(pass, target, left);
}

const NONE_FREE = "waiting until a machine of the class is ready and free";

function startOne(pass: Pass, target: Target, candidates: readonly Candidate[]): TargetState {
  const { key } = target;
  if (!pass.expired.has(key) && !hasRoom(pass)) return { at: "pending", why: FULL };
  const host = candidates.find(({ on }) => on === "Hosts");
  if (host?.on === "Hosts") {
    pass.orders.set(host.name, orderFor(target, host));
    pass.waits.set(attemptOf(host.name, key), pass.now.monotonicMs);
    recheckAt(pass, pass.now.monotonicMs + WAIT_MS);
    return { at: "running", machine: host.name, why: "waiting for the host" };
  }
  const node = candidates.find((one) => one.on === "Nodes" && !pass.nodesWithJob.has(one.name));
  if (node?.on === "Nodes" && pass.nodesWithJob.size < JOBS_MAX) return startJob(pass, target, node);
  return { at: "pending", why: NONE_FREE };
}

function startJob(pass: Pass, target: Target, candidate: Extract<Candidate, { on: "Nodes" }>): TargetState {
  const { key, subject } = target;
  const { model, service, node, name } = candidate;
  const plan = benchmarkPlanOf(model);
  const order = defined<JobOrder>({ key, model, service, runtime: subject.runtime, plan, node });
  try {
    pass.createJobs.push({ job: benchmarkJob(order, pass.world.settings), target, machine: candidate });
    pass.nodesWithJob.add(name);
    return { at: "running", machine: name, why: "starting" };
  } catch (error) {
    const reason = error instanceof MetalbridgeError ? error.code : "BenchmarkFailed";
    const { code, message } = pass.attempts.fail(target, candidate, withRemedy(reason, errorMessage(error)));
    return { at: "failed", code, message };
  }
}

/** True if the result of one more target fits next to those of the targets before it. */
function hasRoom(pass: Pass): boolean {
  const { world, targets, inProgress, expired } = pass;
  const isNew = (key: string) => !expired.has(key);
  pass.room ??= roomIn(world.table, targets) - [...inProgress.keys()].filter(isNew).length;
  pass.room -= 1;
  return pass.room >= 0;
}

function idleHost(pass: Pass, target: Target): Candidate | undefined {
  const isTaken = new Set(
    pass.world.hosts
      .filter(({ status }) => status?.benchmark?.order !== undefined)
      .map(({ metadata }) => metadata.name),
  );
  return target
    .candidates((name) => !isTaken.has(name))
    .find((one) => one.on === "Hosts" && !one.isBusy && !pass.attempts.hasFailed(target, one));
}

function orderFor(
  { key, deviceClass, subject }: Target,
  { build, model }: Extract<Candidate, { on: "Hosts" }>,
): BenchmarkOrder {
  const { runtime, settings } = subject;
  const plan = benchmarkPlanOf(model);
  return defined<BenchmarkOrder>({
    key,
    ...weightsOrderOf(model),
    runtime,
    build,
    deviceClass,
    settings,
    plan,
  });
}

/** True if the agent reports on this order, and not on an earlier one. */
function isAbout(order: BenchmarkOrder, state: BenchmarkState | undefined): boolean {
  if (state?.key !== order.key) return false;
  return state.build === undefined || order.build === undefined || state.build === order.build;
}

const FULL = `the ConfigMap ${BENCHMARKS_NAME} is full`;
const NO_RESULT: Problem = {
  code: "BenchmarkFailed",
  message: "the machine reported no valid measurement",
};
const NO_ANSWER: Problem = {
  code: "BenchmarkTimedOut",
  message: "the agent did not start the benchmark within 15 minutes; update the agent",
};
