/** Progress and speed of a serving engine, from its gauges: when they are read, and one long request if they are late. */

import { measureSpeed, NOTHING_GENERATED } from "../../../src/engines/speed.ts";
import { parseSource } from "../../../src/models/source/parse.ts";
import { nextAlignedTime } from "../../../src/util/shared-ticks.ts";
import type { LivenessReply } from "../../engines/driver/engine.ts";
import type { Instance } from "../../instances/instance.ts";
import type { RunnerContext } from "../context/context.ts";
import { type ObservedWork, stallLimitMs, type Work } from "../evidence/work.ts";
import { NO_WORKLOAD, noteReading } from "../state/probing.ts";
import { type LiveRun, runOf, servedOf, updateServed } from "../state/run.ts";
import { type ReplicaState, replicaOf } from "../state/state.ts";
import type { ProbeContext } from "./probe-context.ts";

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
