/** Requests to a running engine, each in its own job: health, one real request, requests in flight. */

import { mkdirSync } from "node:fs";
import type { Activity } from "../../../src/macos/living-process.ts";
import { hasRecord } from "../../../src/supervise/run-directory.ts";
import type { DrainReading, EngineHealth, LivenessReply } from "../../engines/driver/engine.ts";
import type { RouteCheck } from "../../instances/instance.ts";
import type { RunnerContext } from "../context/context.ts";
import { noteQuiet } from "../evidence/quiet.ts";
import { assessReply, judgeSuspicion } from "../evidence/suspicion.ts";
import { recordReplicaEvent } from "../report/events.ts";
import { readKeyFile, saveKeys } from "../secrets/secrets.ts";
import { countProbe } from "../state/counts.ts";
import { writeHistory } from "../state/history.ts";
import { noteLiveLoad } from "../state/live-load.ts";
import { NO_WORKLOAD, noteFailedRequest, noteHealth, noteRoute, UNPROBED } from "../state/probing.ts";
import {
  type LiveRun,
  liveRunOf,
  noteIdle,
  noteProbing,
  runOf,
  servedOf,
  setFile,
  updateServed,
} from "../state/run.ts";
import { saveRecord } from "../state/save-record.ts";
import { type ReplicaState, replicaOf } from "../state/state.ts";
import { isGaugeReadDue, noteGauges, noteOpenRequest, workOf } from "./gauges.ts";
import { logBytes } from "./log-lines.ts";
import { isSameRun, type ProbeContext, probeContextOf, withTimeout } from "./probe-context.ts";
import { isAgentDelay, probeTimeoutMs } from "./probe-schedule.ts";

const DEFAULT_TIMEOUT_MS = 5_000;
/** The request stays open for longer than its timeout by this factor: closing it would wake a process that is asleep. */
const OPEN_SHARE = 1.05;

/** One health probe on a new connection. */
export function startHealthProbe(state: ReplicaState, context: RunnerContext): void {
  const probe = probeContextOf(state, context);
  if (probe === undefined) return;
  const { run } = probe;
  const timeoutMs = timeoutMsOf(state, run, context);
  state.jobs.run("health", async () => {
    const readsGauges = isGaugeReadDue(state, run, context);
    const answer = await queryHealth(probe, context, { readsGauges, timeoutMs });
    // A delay of the agent itself is not recorded, so the probe is repeated immediately.
    if (answer === "agent delayed" || !isSameRun(state, probe)) return true;
    const { health, progress, generated, tookMs, silent } = answer;
    const wasCalm = isCalm(state);
    const isServed = servedOf(runOf(state)) !== undefined;
    if (isServed) countProbe(state.counts, "health", tookMs, health !== "healthy");
    noteAnswer(state, run, context, health, silent);
    if (readsGauges) noteGauges(state, context, probe, progress);
    else noteOpenRequest(state, run, context);
    if (generated !== undefined)
      updateServed(state, run.instance, ({ workload }) => ({ workload: { ...workload, generated } }));
    if (typeof progress !== "string")
      noteLiveLoad(state, run, context, "engine", {
        inFlight: progress.inFlight,
        generatedTokens: generated?.tokens,
      });
    return isServed && wasCalm && isCalm(state) ? "unchanged" : true;
  });
}

function timeoutMsOf(state: ReplicaState, { probing }: LiveRun, { timings }: RunnerContext): number {
  const { timeoutSeconds, failureThreshold: failures } = replicaOf(state)?.spec.probes ?? {};
  const fullMs = timeoutSeconds === undefined ? DEFAULT_TIMEOUT_MS : timeoutSeconds * 1_000;
  return probeTimeoutMs(probing.health, { failures }, fullMs, timings);
}

/** Asks the gate whether clients can reach the engine, which the engine's health does not show. */
export function checkRoute(state: ReplicaState, context: RunnerContext): void {
  const run = liveRunOf(state);
  if (run === undefined) return;
  state.jobs.run("route", async () => {
    const pending = run.instance.checkRoute?.();
    if (pending === undefined) return "unchanged";
    const timeoutMs = timeoutMsOf(state, run, context);
    const silent: RouteCheck = { problem: "the gate does not answer" };
    const { problem: why, load } = await withTimeout(timeoutMs, context, pending, silent);
    if (load !== undefined) noteLiveLoad(state, run, context, "gate", load);
    const now = context.ports.clock.monotonicMs();
    const before = liveRunOf(state, run.instance)?.probing.route;
    noteProbing(state, run.instance, (probing) => noteRoute(probing, why, now));
    // A continuing failure is checked again with the next health probe, not immediately.
    const wasChecked = before?.checkedAt !== undefined;
    const isSame =
      wasChecked && before.problem === why && (before.failingSince === undefined) === (why === undefined);
    return isSame ? "unchanged" : true;
  });
}

interface TimedAnswer extends LivenessReply {
  readonly tookMs: number;
  /** Activity of the process, if no answer came in time. */
  readonly silent?: Activity;
}

async function queryHealth(
  { driver, target, run }: ProbeContext,
  context: RunnerContext,
  { readsGauges, timeoutMs }: { readonly readsGauges: boolean; readonly timeoutMs: number },
): Promise<TimedAnswer | "agent delayed"> {
  const { clock } = context.ports;
  const startedAt = clock.monotonicMs();
  const options = { timeoutMs: Math.ceil(timeoutMs * OPEN_SHARE) };
  const pending: Promise<LivenessReply> =
    (readsGauges ? driver.probeLive?.(target, options) : undefined) ??
    driver.probeHealth(target, options).then((health) => ({ health, progress: "unknown" as const }));
  const unhealthy = `no answer within ${timeoutMs} ms`;
  const timedOut: LivenessReply = { health: { unhealthy }, progress: "unknown" };
  const answer = await withTimeout(timeoutMs, context, pending, timedOut);
  const tookMs = clock.monotonicMs() - startedAt;
  if (answer !== timedOut) return { ...answer, tookMs };
  if (isAgentDelay(tookMs, timeoutMs, context.timings)) return "agent delayed";
  return { ...timedOut, tookMs, silent: await run.instance.activity() };
}

/** Healthy, idle and without suspicion: another such answer changes no plan. The first one after a sleep may. */
function isCalm(state: ReplicaState): boolean {
  const run = liveRunOf(state);
  const served = servedOf(run);
  const { health, route } = run?.probing ?? UNPROBED;
  const { work } = served?.workload ?? NO_WORKLOAD;
  const { at } = served?.log.suspicion ?? { at: "none" };
  if (health.lastProbeAt === undefined || route.failingSince !== undefined) return false;
  const isIdle = (work.last?.inFlight ?? 0) === 0 && work.openAt === undefined;
  const isTrusted = at === "none" || at === "cleared";
  return health.healthyAt !== undefined && health.failuresInARow === 0 && isIdle && isTrusted;
}

function noteAnswer(
  state: ReplicaState,
  { instance }: LiveRun,
  context: RunnerContext,
  answer: EngineHealth,
  silent: Activity | undefined,
): void {
  const now = context.ports.clock.monotonicMs();
  const wasReady = runOf(state)?.file.readyAtMs !== undefined;
  const bytes = wasReady ? 0 : logBytes(instance.logPath);
  const message =
    answer === "loading" ? "the engine is loading" : answer === "healthy" ? "" : answer.unhealthy;
  const seen = answer === "healthy" ? answer : { message, silent };
  noteProbing(state, instance, (before) => noteHealth(before, seen, { now, wasReady, logBytes: bytes }));
  const health = liveRunOf(state)?.probing.health;
  if ((health?.failuresInARow ?? 0) > 0) state.log.warn({ health }, "health probe failed");
}

/** Sends one real request. If it succeeds, the engine's own facts are read too. */
export function startRequestProbe(state: ReplicaState, context: RunnerContext, timeoutMs: number): void {
  const probe = probeContextOf(state, context);
  if (probe === undefined) return;
  const { run } = probe;
  state.jobs.run("request", async (signal) => {
    const provenTo = logBytes(run.instance.logPath);
    const startedAt = context.ports.clock.monotonicMs();
    const answer = await probe.driver.probeRequest(probe.target, { timeoutMs, signal });
    if (signal.aborted || !isSameRun(state, probe)) return true;
    countProbe(state.counts, "request", context.ports.clock.monotonicMs() - startedAt, answer !== "ok");
    if (answer === "ok") {
      await run.instance.admitClients?.();
      noteProbing(state, run.instance, (before) => ({ ...before, request: { at: "ok" }, provenTo }));
      readFacts(state, context, probe);
      return true;
    }
    const lastAt = context.ports.clock.monotonicMs();
    noteProbing(state, run.instance, (before) => noteFailedRequest(before, answer.failed, lastAt));
    const request = liveRunOf(state)?.probing.request;
    const tries = request?.at === "failed" ? request.tries : 1;
    state.log.warn({ tries, message: answer.failed }, "a real request failed");
    return true;
  });
}

/** Runs concurrently with the announcement, so that it does not delay it. */
function readFacts(state: ReplicaState, context: RunnerContext, probe: ProbeContext): void {
  state.jobs.run("facts", async (signal) => {
    const contextPerSlot = await probe.driver.readContextPerSlot?.(probe.target);
    // An agent that has stopped must not write engine.json, which belongs to the next agent.
    if (contextPerSlot === undefined || signal.aborted || !isSameRun(state, probe)) return true;
    if (runOf(state)?.file.contextPerSlot === contextPerSlot) return true;
    setFile(state, { contextPerSlot }, context.moment());
    await saveRecord(state);
    return true;
  });
}

/** Reads once how many requests a draining engine still has in flight. */
export function pollQuiet(state: ReplicaState, context: RunnerContext): void {
  const probe = probeContextOf(state, context);
  if (probe === undefined) return;
  state.jobs.run("quiet", async () => {
    const pending = readWork(probe).catch(() => "unknown" as const);
    const reading = await withTimeout(DEFAULT_TIMEOUT_MS, context, pending, "unknown");
    const now = context.ports.clock.monotonicMs();
    noteIdle(state, probe.run.instance, (before) => noteQuiet(before, reading, now));
    return true;
  });
}

/** Reads from the gate in front of the engine, if there is one: its count is exact. */
async function readWork({ driver, target, run }: ProbeContext): Promise<DrainReading | "unknown"> {
  const inFlight = await run.instance.inFlight?.();
  if (inFlight === undefined) return driver.readWork?.(target) ?? "unknown";
  return inFlight === "unknown" ? inFlight : { inFlight, tokensTotal: 0 };
}

/**
 * Restores the run directory from memory while the engine keeps serving: the engine does not read these files, but the next
 * agent needs them to adopt it. The FIFOs cannot be restored, so that agent detects an exit by pid, some seconds late.
 */
export function restoreFiles(state: ReplicaState): void {
  const { dir } = state;
  const run = liveRunOf(state);
  if (run?.instance.state().at !== "running") return;
  const { instance, apiKey } = run;
  const failed = (err: unknown) => state.repeated.found("write the run directory", String(err), { err });
  try {
    const wasRestored = instance.restoreFiles();
    if (!wasRestored && hasRecord(dir)) return;
  } catch (err) {
    failed(err);
    return;
  }
  state.jobs.run("restore", async () => {
    try {
      mkdirSync(dir, { recursive: true, mode: 0o700 });
      await saveRecord(state);
      writeHistory(dir, state.past.history);
      if (apiKey !== undefined && readKeyFile(dir) === undefined) await saveKeys(dir, apiKey);
      state.repeated.resolved("write the run directory");
      state.log.warn({ dir }, "files of a running engine were missing; restored them");
    } catch (err) {
      failed(err);
    }
    return "unchanged";
  });
}

/** Reads the footprint once. If that fails, the last figure is kept until the next scheduled reading. */
export function measureFootprint(state: ReplicaState, context: RunnerContext): void {
  const run = liveRunOf(state);
  if (run?.instance.state().at !== "running") return;
  state.jobs.run("footprint", async () => {
    const bytes = await run.instance.footprintBytes();
    // A figure that was read after the exit may be another process's.
    if (run.instance.state().at !== "running") return true;
    const lastAt = context.ports.clock.monotonicMs();
    updateServed(state, run.instance, ({ footprint }) => ({
      footprint: { lastAt, bytes: bytes ?? footprint?.bytes },
    }));
    return true;
  });
}

/** Sends one real request to an engine whose log shows errors. */
export function proveAgain(state: ReplicaState, context: RunnerContext, timeoutMs: number): void {
  const probe = probeContextOf(state, context);
  if (probe === undefined) return;
  const { run } = probe;
  state.jobs.run("prove", async (signal) => {
    const { clock } = context.ports;
    const at = clock.monotonicMs();
    const before = workOf(state);
    const answer = await probe.driver.probeRequest(probe.target, { timeoutMs, signal });
    if (signal.aborted || !isSameRun(state, probe)) return true;
    const now = clock.monotonicMs();
    countProbe(state.counts, "request", now - at, answer !== "ok");
    const verdict = assessReply(answer, { at, isLate: now - at >= timeoutMs, before, after: workOf(state) });
    updateServed(state, run.instance, ({ log }) => ({
      log: { ...log, suspicion: judgeSuspicion(log.suspicion, verdict, now) },
    }));
    state.log.warn({ answer, verdict }, "a real request after errors in the engine's log");
    if (answer === "ok") reportOnce(state, context);
    return true;
  });
}

/** Reports the logged errors once per run, although the engine keeps serving. */
function reportOnce(state: ReplicaState, context: RunnerContext): void {
  const run = servedOf(runOf(state));
  if (run === undefined || run.log.isReported === true) return;
  const { suspicion } = run.log;
  if (suspicion.at !== "cleared") return;
  updateServed(state, run.instance, ({ log }) => ({ log: { ...log, isReported: true } }));
  recordReplicaEvent(state, context, {
    type: "Warning",
    reason: "EngineErrorsLogged",
    action: "Prove",
    note: `the engine's log says "${suspicion.line}"; a real request succeeded, so it keeps serving`,
  });
}
