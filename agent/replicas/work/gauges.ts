/** What a serving engine's gauges say of its progress: when they are asked for, and one patient question where they are late. */
import { nextBeat } from "../../../src/beats.ts";
import { hasMovedOn, longestStall, seeWork, type WorkSeen } from "../../../src/replica/evidence/work.ts";
import type { LiveAnswer } from "../../engines/engine.ts";
import type { RunnerContext } from "../context.ts";
import type { ReplicaState } from "../state.ts";
import { isSameRun, type Probe } from "./question.ts";

const PATIENT = "gauges";

/** From here on its gauges are read and its log is looked through; before that its requests are our own. */
export function isServing(state: ReplicaState): boolean {
  return state.file?.readyAtMs !== undefined;
}

/** Gauges cost several times what a bare health answer does: an idle engine's are read now and then, a busy one's always. */
export function isGaugeLookDue(state: ReplicaState, context: RunnerContext): boolean {
  if (!isServing(state) || state.jobs.isRunning(PATIENT)) return false;
  const now = context.ports.clock.monotonicMs();
  const { work, gaugesAt } = state.run;
  const isBusy = (work.last?.inFlight ?? 0) > 0;
  if (!isBusy && gaugesAt !== undefined && now < nextBeat(gaugesAt, context.timings.gaugesMs)) return false;
  state.run.gaugesAt = now;
  return true;
}

/**
 * Late gauges are asked for once more, for as long as a step may take: some engines answer between two steps only, and
 * there many short questions could all miss the moment.
 */
export function noteGauges(
  state: ReplicaState,
  context: RunnerContext,
  probe: Probe,
  progress: LiveAnswer["progress"],
): void {
  note(state, context, progress === "late" ? "open" : progress);
  if (progress !== "late") return;
  const timeoutMs = 2 * longestStall(state.run.work, context.timings);
  state.jobs.run(PATIENT, async (signal) => {
    const answer = await probe.driver.readProgress(probe.target, { timeoutMs, signal });
    if (!signal.aborted && isSameRun(state, probe)) note(state, context, answer);
    return true;
  });
}

/** Its time goes on. */
export function seeOpenQuestion(state: ReplicaState, context: RunnerContext): void {
  if (isServing(state) && state.jobs.isRunning(PATIENT)) note(state, context, "open");
}

function note(state: ReplicaState, context: RunnerContext, seen: WorkSeen): void {
  const now = context.ports.clock.monotonicMs();
  const { work, idleSince } = state.run;
  const isIdle = typeof seen !== "string" && seen.inFlight === 0 && !hasMovedOn(work.last, seen);
  state.run.idleSince = isIdle ? (idleSince ?? now) : undefined;
  state.run.work = seeWork(work, seen, now, context.timings.stallGapMs);
}
