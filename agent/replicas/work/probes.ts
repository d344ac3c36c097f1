/** Questions to a running engine, each a job of its own: health, one real request, requests in flight. */
import { statSync } from "node:fs";
import { join } from "node:path";
import type { EngineDriver, EngineTarget, Health } from "../../engines/engine.ts";
import type { RunnerContext } from "../context.ts";
import { type EngineFile, writeEngineFile } from "../files/engine-record.ts";
import { type ReplicaState, setFile } from "../state.ts";

const LOOPBACK = "127.0.0.1";
const DEFAULT_TIMEOUT_MS = 5_000;

interface Probe {
  readonly driver: EngineDriver;
  readonly target: EngineTarget;
  readonly file: EngineFile;
}

/** One health probe on a fresh connection. */
export function probeHealth(state: ReplicaState, context: RunnerContext): void {
  const probe = probeOf(state, context);
  if (probe === undefined) return;
  const timeoutSeconds = state.desired?.spec.probes.timeoutSeconds;
  const timeoutMs = timeoutSeconds === undefined ? DEFAULT_TIMEOUT_MS : timeoutSeconds * 1_000;
  state.jobs.run("health", async () => {
    const asked = probe.driver.probeHealth(probe.target, { timeoutMs });
    const answer = await within(timeoutMs, context, asked);
    if (isSameRun(state, probe)) noteHealth(state, context, answer);
    return true;
  });
}

function noteHealth(state: ReplicaState, context: RunnerContext, answer: Health): void {
  const now = context.ports.clock.monotonicMs();
  const before = state.run.health;
  const { progressAt = undefined } = seeProgress(state) ? { progressAt: now } : before;
  const kept = { lastProbeAt: now, ...(progressAt === undefined ? {} : { progressAt }) };
  if (answer === "healthy") {
    state.run.health = { ...kept, failuresInARow: 0, healthyAt: before.healthyAt ?? now };
    return;
  }
  const wasHealthy = before.healthyAt !== undefined || state.file?.readyAtMs !== undefined;
  state.run.health = {
    ...kept,
    ...(before.healthyAt === undefined ? {} : { healthyAt: before.healthyAt }),
    failuresInARow: wasHealthy ? before.failuresInARow + 1 : 0,
    lastMessage: answer === "loading" ? "the engine says that it loads" : answer.unhealthy,
  };
  if (wasHealthy) context.log.warn({ uid: state.uid, health: state.run.health }, "health probe failed");
}

/** A log that grows is the sign of progress every engine gives. */
function seeProgress(state: ReplicaState): boolean {
  if (state.file?.readyAtMs !== undefined) return false;
  const bytes = statSync(join(state.dir, "log"), { throwIfNoEntry: false })?.size ?? 0;
  const grew = bytes > state.run.logBytes && state.run.logBytes > 0;
  state.run.logBytes = bytes;
  return grew;
}

/** One real request; when it succeeds, what the engine tells of itself is read too. */
export function probeRequest(state: ReplicaState, context: RunnerContext, timeoutMs: number): void {
  const probe = probeOf(state, context);
  if (probe === undefined) return;
  state.jobs.run("request", async () => {
    const answer = await probe.driver.probeRequest(probe.target, { timeoutMs });
    if (!isSameRun(state, probe)) return true;
    const before = state.run.request;
    if (answer === "ok") {
      state.run.request = { at: "ok" };
      readFacts(state, context, probe);
      return true;
    }
    const tries = before.at === "failed" ? before.tries + 1 : 1;
    const lastAt = context.ports.clock.monotonicMs();
    state.run.request = { at: "failed", tries, lastAt, message: answer.failed };
    context.log.warn({ uid: state.uid, tries, message: answer.failed }, "a real request failed");
    return true;
  });
}

/** Beside the announcement, not before it. */
function readFacts(state: ReplicaState, context: RunnerContext, probe: Probe): void {
  state.jobs.run("facts", async () => {
    const { contextPerSlot } = await probe.driver.facts(probe.target);
    if (contextPerSlot === undefined || !isSameRun(state, probe) || state.file === undefined) return true;
    if (state.file.contextPerSlot === contextPerSlot) return true;
    setFile(state, { ...state.file, contextPerSlot }, context.moment());
    writeEngineFile(state.dir, state.file);
    return true;
  });
}

/** One reading of the requests in flight. One that fails means busy. */
export function pollQuiet(state: ReplicaState, context: RunnerContext): void {
  const probe = probeOf(state, context);
  if (probe === undefined) return;
  state.jobs.run("quiet", async () => {
    const count = await within(DEFAULT_TIMEOUT_MS, context, probe.driver.inFlight(probe.target)).catch(
      () => "unknown",
    );
    if (!isSameRun(state, probe)) return true;
    const now = context.ports.clock.monotonicMs();
    state.run.quiet =
      count === 0 ? { lastPollAt: now, since: state.run.quiet.since ?? now } : { lastPollAt: now };
    return true;
  });
}

function probeOf(state: ReplicaState, context: RunnerContext): Probe | undefined {
  const { file } = state;
  const driver = file === undefined ? undefined : context.runtimes.driver(file.runtime);
  if (file === undefined || driver === undefined) return undefined;
  const { apiKey } = state.run;
  const target = {
    host: LOOPBACK,
    port: file.port,
    mode: file.mode,
    ...(file.service === "" ? {} : { modelAlias: file.service }),
    ...(apiKey === undefined ? {} : { apiKey }),
  };
  return { driver, target, file };
}

/** An answer that comes after the run's end says nothing about the next one. */
function isSameRun(state: ReplicaState, probe: Probe): boolean {
  return state.file?.runId === probe.file.runId;
}

function within<T>(
  timeoutMs: number,
  context: RunnerContext,
  answer: Promise<T>,
): Promise<T | { readonly unhealthy: string }> {
  return new Promise((resolve, reject) => {
    const cancel = context.ports.clock.after(timeoutMs, () =>
      resolve({ unhealthy: `no answer within ${timeoutMs} ms` }),
    );
    answer.then(resolve, reject).finally(cancel);
  });
}
