/** Questions to a running engine, each a job of its own: health, one real request, requests in flight. */
import { seeQuiet } from "../../../src/replica/evidence/quiet.ts";
import type { Health, LiveAnswer } from "../../engines/engine.ts";
import type { RunnerContext } from "../context.ts";
import { writeEngineFile } from "../files/engine-record.ts";
import { countProbe } from "../metrics/counts.ts";
import { type ReplicaState, setFile } from "../state.ts";
import { isGaugeLookDue, isServing, noteGauges, seeOpenQuestion } from "./gauges.ts";
import { logBytes, lookAtLog } from "./log-look.ts";
import { isSameRun, type Probe, probeOf, within } from "./question.ts";
import { restoreRunFolder } from "./run-folder.ts";
import { noteSpeed } from "./speed.ts";

const DEFAULT_TIMEOUT_MS = 5_000;

/** One health probe on a fresh connection. */
export function probeHealth(state: ReplicaState, context: RunnerContext): void {
  const probe = probeOf(state, context);
  if (probe === undefined) return;
  const timeoutSeconds = state.desired?.spec.probes.timeoutSeconds;
  const timeoutMs = timeoutSeconds === undefined ? DEFAULT_TIMEOUT_MS : timeoutSeconds * 1_000;
  state.jobs.run("health", async () => {
    restoreRunFolder(state);
    const askedAt = context.ports.clock.monotonicMs();
    const asksGauges = isGaugeLookDue(state, context);
    const asked: Promise<LiveAnswer> = asksGauges
      ? probe.driver.probeLive(probe.target, { timeoutMs })
      : probe.driver
          .probeHealth(probe.target, { timeoutMs })
          .then((health) => ({ health, progress: "unknown" as const }));
    const unhealthy = `no answer within ${timeoutMs} ms`;
    const late: LiveAnswer = { health: { unhealthy }, progress: "unknown" };
    const { health, progress, generated } = await within(timeoutMs, context, asked, late);
    if (!isSameRun(state, probe)) return true;
    const before = state.run;
    const wasCalm = isCalm(before);
    if (isServing(state)) {
      const tookMs = context.ports.clock.monotonicMs() - askedAt;
      countProbe(state.counts, "health", tookMs, health !== "healthy");
    }
    noteHealth(state, context, health);
    if (asksGauges) noteGauges(state, context, probe, progress);
    else seeOpenQuestion(state, context);
    if (generated !== undefined) noteSpeed(state, context, generated);
    if (isServing(state)) await lookAtLog(state, context, probe.driver);
    return wasCalm && state.run === before && isCalm(before) && isServing(state) ? "unchanged" : true;
  });
}

/** Healthy, idle and beyond suspicion: another answer of the same kind changes no plan. The first after a sleep may. */
function isCalm({ health, work, suspicion }: ReplicaState["run"]): boolean {
  if (health.lastProbeAt === undefined) return false;
  const isIdle = (work.last?.inFlight ?? 0) === 0 && work.openAt === undefined;
  const isTrusted = suspicion.at === "none" || suspicion.at === "cleared";
  return health.healthyAt !== undefined && health.failuresInARow === 0 && isIdle && isTrusted;
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
  if (wasHealthy) state.log.warn({ health: state.run.health }, "health probe failed");
}

/** A log that grows is the sign of progress every engine gives. */
function seeProgress(state: ReplicaState): boolean {
  if (state.file?.readyAtMs !== undefined) return false;
  const bytes = logBytes(state.dir);
  const grew = bytes > state.run.logBytes && state.run.logBytes > 0;
  state.run.logBytes = bytes;
  return grew;
}

/** One real request; when it succeeds, what the engine tells of itself is read too. */
export function probeRequest(state: ReplicaState, context: RunnerContext, timeoutMs: number): void {
  const probe = probeOf(state, context);
  if (probe === undefined) return;
  state.jobs.run("request", async (signal) => {
    const logSeenTo = logBytes(state.dir);
    const askedAt = context.ports.clock.monotonicMs();
    const answer = await probe.driver.probeRequest(probe.target, { timeoutMs, signal });
    if (signal.aborted || !isSameRun(state, probe)) return true;
    countProbe(state.counts, "request", context.ports.clock.monotonicMs() - askedAt, answer !== "ok");
    const before = state.run.request;
    if (answer === "ok") {
      state.run.request = { at: "ok" };
      // What it logged before says nothing any more.
      state.run.logSeenTo = logSeenTo;
      readFacts(state, context, probe);
      return true;
    }
    const tries = before.at === "failed" ? before.tries + 1 : 1;
    const lastAt = context.ports.clock.monotonicMs();
    state.run.request = { at: "failed", tries, lastAt, message: answer.failed };
    state.log.warn({ tries, message: answer.failed }, "a real request failed");
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

/** One look at what a draining engine still has to do. */
export function pollQuiet(state: ReplicaState, context: RunnerContext): void {
  const probe = probeOf(state, context);
  if (probe === undefined) return;
  state.jobs.run("quiet", async () => {
    const asked = probe.driver.readWork(probe.target).catch(() => "unknown" as const);
    const reading = await within(DEFAULT_TIMEOUT_MS, context, asked, "unknown");
    if (!isSameRun(state, probe)) return true;
    state.run.quiet = seeQuiet(state.run.quiet, reading, context.ports.clock.monotonicMs());
    return true;
  });
}
