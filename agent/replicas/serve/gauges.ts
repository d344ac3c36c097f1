/** Progress and speed of a serving engine, from its gauges: when they are read, and one long request if they are late. */

import { measureSpeed, NOTHING_GENERATED } from "../../../src/engines/speed.ts";
import { parseSource } from "../../../src/models/source/parse.ts";
import { nextAlignedTime } from "../../../src/util/shared-ticks.ts";
import type { LivenessReply } from "../../engines/driver/engine.ts";
import type { Instance } from "../../instances/instance.ts";
import type { RunnerContext } from "../context/context.ts";
import { type ObservedWork, stallLimitMs, type Work } from "../evidence/work.ts";
import type { EngineReading } from "../state/counts.ts";
import { NO_WORKLOAD, noteReading } from "../state/probing.ts";
import { type LiveRun, runOf, servedOf, updateServed } from "../state/run.ts";
import { type ReplicaState, replicaOf } from "../state/state.ts";
import { type ProbeContext, probeContextOf, withTimeout } from "./probe-context.ts";

const LONG_READ = "gauges";

/** Reading gauges costs several times as much as a health check: a busy engine's are read with every probe, an idle one's less often. */
export function isGaugeReadDue(state: ReplicaState, run: LiveRun, context: RunnerContext): boolean {
  const served = servedOf(run);
  if (served === undefined || state.jobs.isRunning(LONG_READ)) return false;
  const now = context.ports.clock.monotonicMs();
  const { work, gaugesAt } = served.workload;
  const isBusy = (work.last?.inFlight ?? 0) > 0;
  if (!isBusy && gaugesAt !== undefined && now < nextAlignedTime(gaugesAt, context.timings.gaugesMs))
    return false;
  updateServed(state, run.instance, ({ workload }) => ({ workload: { ...workload, gaugesAt: now } }));
  return true;
}

/**
 * Requests late gauges once more, with a timeout as long as a step may take: some engines answer only between two
 * steps, and many short requests could all miss that moment.
 */
export function noteGauges(
  state: ReplicaState,
  context: RunnerContext,
  probe: ProbeContext,
  progress: LivenessReply["progress"],
): void {
  const { instance } = probe.run;
  note(state, instance, context, progress === "late" ? "open" : progress);
  if (progress !== "late") return;
  const timeoutMs = 2 * stallLimitMs(workOf(state), context.timings);
  state.jobs.run(LONG_READ, async (signal) => {
    const answer = await probe.driver.readProgress?.(probe.target, { timeoutMs, signal });
    if (!signal.aborted) note(state, instance, context, answer ?? "unknown");
    return true;
  });
}

/** Counts the time for which a request for the gauges has been pending. */
export function noteOpenRequest(state: ReplicaState, { instance }: LiveRun, context: RunnerContext): void {
  if (state.jobs.isRunning(LONG_READ)) note(state, instance, context, "open");
}

export function workOf(state: ReplicaState): Work {
  return (servedOf(runOf(state))?.workload ?? NO_WORKLOAD).work;
}

function note(state: ReplicaState, instance: Instance, context: RunnerContext, seen: ObservedWork): void {
  const now = context.ports.clock.monotonicMs();
  updateServed(state, instance, ({ workload }) => ({
    workload: noteReading(workload, seen, now, context.timings.stallGapMs),
  }));
}

/** Measures the speed from the counters at the last measurement and at the last reading. */
export function noteSpeed(state: ReplicaState, context: RunnerContext): void {
  const run = servedOf(runOf(state));
  const { generated, measured = NOTHING_GENERATED } = run?.workload ?? NO_WORKLOAD;
  if (run === undefined || generated === undefined) return;
  const { counted, tokensPerSecond } = measureSpeed(measured, generated);
  updateServed(state, run.instance, ({ workload }) => ({ workload: { ...workload, measured: counted } }));
  const sha256 = weightsOf(state, run);
  if (tokensPerSecond === undefined || sha256 === undefined) return;
  state.log.debug({ tokensPerSecond }, "speed measured");
  context.ports.store.noteSpeed(sha256, tokensPerSecond).catch((err: unknown) => {
    state.log.warn({ err }, "cannot save the measured speed");
  });
}

/** Checksum of the run's model, which is the first of its contents. A file used in place is not a model of the store. */
function weightsOf(state: ReplicaState, { file }: LiveRun): string | undefined {
  const replica = replicaOf(state);
  if (replica === undefined || parseSource(replica.spec.template.model.source).kind === "file")
    return undefined;
  return file.contents?.[0];
}

/**
 * Reads the gauges of all engines concurrently and in bounded time: a scrape must not wait for a dead engine. The gauges of an
 * engine that cannot be read are "unknown"; engines without gauges are omitted.
 */
export function readEngines(context: RunnerContext, timeoutMs: number): Promise<readonly EngineReading[]> {
  const readings: Promise<EngineReading>[] = [];
  for (const state of context.states.values()) {
    const probe = readable(state, context);
    if (probe !== undefined) readings.push(read(state, probe, context, timeoutMs));
  }
  return Promise.all(readings);
}

/** Undefined if the engine has no gauges, as while it loads its weights. */
function readable(state: ReplicaState, context: RunnerContext): ProbeContext | undefined {
  const run = runOf(state);
  const isUp = run?.instance.state().at === "running" && run.file.readyAtMs !== undefined;
  const probe = isUp ? probeContextOf(state, context) : undefined;
  return probe?.driver.gauges === undefined ? undefined : probe;
}

async function read(
  state: ReplicaState,
  { driver, target, run }: ProbeContext,
  context: RunnerContext,
  timeoutMs: number,
): Promise<EngineReading> {
  const { uid } = state;
  // The last health probe has failed, so the engine would not answer.
  if (run.probing.health.failuresInARow > 0 || driver.gauges === undefined) return { uid, gauges: "unknown" };
  const pending = driver.gauges(target, { timeoutMs }).catch(() => "unknown" as const);
  return { uid, gauges: await withTimeout(timeoutMs, context, pending, "unknown") };
}
