/** Progress and speed of a serving engine, from its gauges: when they are read, and one long request where they are late. */

import { measureSpeed, NOTHING_GENERATED } from "../../../src/engines/speed.ts";
import { parseSource } from "../../../src/models/source/parse.ts";
import { nextAlignedTime } from "../../../src/util/shared-ticks.ts";
import type { LivenessReply } from "../../engines/engine.ts";
import type { Instance } from "../../instances/instance.ts";
import type { RunnerContext } from "../context.ts";
import { type ObservedWork, stallLimitMs, type Work } from "../evidence/work.ts";
import { NO_WORKLOAD, noteReading } from "../state/probing.ts";
import { type LiveRun, noteWorkload, runOf, servedOf } from "../state/run.ts";
import { type ReplicaState, replicaOf } from "../state/state.ts";
import type { ProbeContext } from "./probe-context.ts";

const PATIENT = "gauges";

/** Gauges cost several times what a bare health answer does: an idle engine's are read now and then, a busy one's always. */
export function isGaugeReadDue(state: ReplicaState, run: LiveRun, context: RunnerContext): boolean {
  const served = servedOf(run);
  if (served === undefined || state.jobs.isRunning(PATIENT)) return false;
  const now = context.ports.clock.monotonicMs();
  const { work, gaugesAt } = served.workload;
  const isBusy = (work.last?.inFlight ?? 0) > 0;
  if (!isBusy && gaugesAt !== undefined && now < nextAlignedTime(gaugesAt, context.timings.gaugesMs))
    return false;
  noteWorkload(state, run.instance, (workload) => ({ ...workload, gaugesAt: now }));
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
  state.jobs.run(PATIENT, async (signal) => {
    const answer = await probe.driver.readProgress?.(probe.target, { timeoutMs, signal });
    if (!signal.aborted) note(state, instance, context, answer ?? "unknown");
    return true;
  });
}

/** The time of a pending request keeps counting. */
export function noteOpenRequest(state: ReplicaState, { instance }: LiveRun, context: RunnerContext): void {
  if (state.jobs.isRunning(PATIENT)) note(state, instance, context, "open");
}

export function workOf(state: ReplicaState): Work {
  return (servedOf(runOf(state))?.workload ?? NO_WORKLOAD).work;
}

function note(state: ReplicaState, instance: Instance, context: RunnerContext, seen: ObservedWork): void {
  const now = context.ports.clock.monotonicMs();
  noteWorkload(state, instance, (before) => noteReading(before, seen, now, context.timings.stallGapMs));
}

/** Between the last measurement and the counters as they were last read. */
export function noteSpeed(state: ReplicaState, context: RunnerContext): void {
  const run = servedOf(runOf(state));
  const { generated, measured = NOTHING_GENERATED } = run?.workload ?? NO_WORKLOAD;
  if (run === undefined || generated === undefined) return;
  const { counted, tokensPerSecond } = measureSpeed(measured, generated);
  noteWorkload(state, run.instance, (before) => ({ ...before, measured: counted }));
  const sha256 = weightsOf(state, run);
  if (tokensPerSecond === undefined || sha256 === undefined) return;
  state.log.debug({ tokensPerSecond }, "speed measured");
  context.ports.store.noteSpeed(sha256, tokensPerSecond).catch((err: unknown) => {
    state.log.warn({ err }, "cannot save the measured speed");
  });
}

/** The first of what it holds is its model, then comes the draft. A file used in place is no model of the store. */
function weightsOf(state: ReplicaState, { file }: LiveRun): string | undefined {
  const replica = replicaOf(state);
  if (replica === undefined || parseSource(replica.spec.template.model.source).kind === "file")
    return undefined;
  return file.contents?.[0];
}
