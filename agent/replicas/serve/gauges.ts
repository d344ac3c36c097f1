/** Progress and speed of a serving engine, from its gauges: when they are read, and one long request where they are late. */
import { type Generated, measureSpeed, NOTHING_GENERATED } from "../../../src/engines/speed.ts";
import { parseSource } from "../../../src/models/source/parse.ts";
import { nextAlignedTime } from "../../../src/util/shared-ticks.ts";
import type { LivenessReply } from "../../engines/engine.ts";
import type { RunnerContext } from "../context.ts";
import { hasProgressed, noteWork, type ObservedWork, stallLimitMs } from "../evidence/work.ts";
import { type EngineRun, type ReplicaState, replicaOf } from "../state/state.ts";
import { isSameRun, type ProbeContext } from "./probe-context.ts";

const PATIENT = "gauges";

/** From then on its gauges are read and its log is scanned; before that, all requests are our own. */
export function hasBeenReady({ file }: EngineRun): boolean {
  return file.readyAtMs !== undefined;
}

/** Gauges cost several times what a bare health answer does: an idle engine's are read now and then, a busy one's always. */
export function isGaugeReadDue(state: ReplicaState, run: EngineRun, context: RunnerContext): boolean {
  if (!hasBeenReady(run) || state.jobs.isRunning(PATIENT)) return false;
  const now = context.ports.clock.monotonicMs();
  const { work, gaugesAt } = run;
  const isBusy = (work.last?.inFlight ?? 0) > 0;
  if (!isBusy && gaugesAt !== undefined && now < nextAlignedTime(gaugesAt, context.timings.gaugesMs))
    return false;
  run.gaugesAt = now;
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
  note(probe.run, context, progress === "late" ? "open" : progress);
  if (progress !== "late") return;
  const timeoutMs = 2 * stallLimitMs(probe.run.work, context.timings);
  state.jobs.run(PATIENT, async (signal) => {
    const answer = await probe.driver.readProgress(probe.target, { timeoutMs, signal });
    if (!signal.aborted && isSameRun(state, probe)) note(probe.run, context, answer);
    return true;
  });
}

/** The time of a pending request keeps counting. */
export function noteOpenRequest(state: ReplicaState, run: EngineRun, context: RunnerContext): void {
  if (hasBeenReady(run) && state.jobs.isRunning(PATIENT)) note(run, context, "open");
}

function note(run: EngineRun, context: RunnerContext, seen: ObservedWork): void {
  const now = context.ports.clock.monotonicMs();
  const { work, idleSince } = run;
  const isIdle = typeof seen !== "string" && seen.inFlight === 0 && !hasProgressed(work.last, seen);
  run.idleSince = isIdle ? (idleSince ?? now) : undefined;
  run.work = noteWork(work, seen, now, context.timings.stallGapMs);
}

/** Measured once enough was generated since the last time. */
export function noteSpeed(
  state: ReplicaState,
  run: EngineRun,
  context: RunnerContext,
  generated: Generated,
): void {
  const { counted, tokensPerSecond } = measureSpeed(run.generated ?? NOTHING_GENERATED, generated);
  run.generated = counted;
  const sha256 = weightsOf(state, run);
  if (tokensPerSecond === undefined || sha256 === undefined) return;
  state.log.debug({ tokensPerSecond }, "speed measured");
  context.ports.store.noteSpeed(sha256, tokensPerSecond).catch((err: unknown) => {
    state.log.warn({ err }, "cannot save the measured speed");
  });
}

/** The first of what it holds is its model, then comes the draft. A file used in place is no model of the store. */
function weightsOf(state: ReplicaState, { file }: EngineRun): string | undefined {
  const replica = replicaOf(state);
  if (replica === undefined || parseSource(replica.spec.template.model.source).kind === "file")
    return undefined;
  return file.contents?.[0];
}
