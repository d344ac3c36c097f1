/** The exit of a run: classifies and records it, and releases the run's memory. */

import { describeError, MetalbridgeError } from "../../../src/api/errors.ts";
import type { RunAtEnd } from "../../../src/engines/contract/last-run.ts";
import { removeRun } from "../../../src/supervise/run-directory.ts";
import { truncate } from "../../../src/util/text.ts";
import type { ExitRecord } from "../../instances/instance.ts";
import type { RunnerContext } from "../context/context.ts";
import { drainEndsAt } from "../evidence/drain-time.ts";
import type { HistoryExit } from "../evidence/observed.ts";
import { isTerminal } from "../evidence/terminal-failures.ts";
import { reportPhase } from "../report/report.ts";
import { countDrain } from "../state/counts.ts";
import type { EngineFile } from "../state/engine-record.ts";
import { noteExit, saveHistory, setPast } from "../state/history.ts";
import { type EngineRun, endRun, runOf } from "../state/run.ts";
import { whenRecordWritten } from "../state/save-record.ts";
import { attemptedWeights, type ReplicaState } from "../state/state.ts";
import { forgetWeights } from "../state/weights.ts";
import { crashBackoffMs, FORCED, isForced } from "./plan.ts";

const TAIL_BYTES = 4_000;
const MESSAGE_MAX = 2_000;

/** Records the exit and the backoff before the next start, once per run. */
export async function recordExit(state: ReplicaState, context: RunnerContext): Promise<void> {
  const run = runOf(state);
  const seen = run?.instance.state();
  if (run === undefined || (seen?.at !== "ended" && seen?.at !== "gone")) return;
  const { file, instance, record } = run;
  if (state.past.history.recordedRunId === file.runId) return;
  const logTail = await instance.logTail(TAIL_BYTES).catch(() => "");
  const lastExit = await exitOf(file, seen.exit, logTail, context);
  // Read after the last await: an eviction may have been noted meanwhile.
  const { history } = state.past;
  const { clock } = context.ports;
  const wasSteady =
    record.readyAt !== undefined && clock.monotonicMs() - record.readyAt >= context.timings.backoffResetMs;
  // Crashes before a run that served for long do not count: the failure is not caused by the start.
  const crashesInARow = wasSteady ? 1 : history.crashesInARow + 1;
  const delayMs = crashBackoffMs(context.timings, crashesInARow, context.random());
  const runtime = context.runtimes.state(file.runtime);
  // A run that was Ready can become Ready again, whatever its log says: the log contains clients' text.
  const isFinal = file.readyAtMs === undefined && isTerminal(lastExit.reason);
  const terminal =
    isFinal && runtime.at === "present"
      ? { runtimeVersion: runtime.version, weights: attemptedWeights(state) }
      : undefined;
  noteExit(state, lastExit, clock.monotonicMs());
  setPast(state, { backoffUntil: clock.monotonicMs() + delayMs });
  saveHistory(state, {
    ...history,
    // A port that another process took is not used again.
    port: lastExit.reason === "EnginePortTaken" ? undefined : history.port,
    terminal,
    restarts: history.restarts + 1,
    crashesInARow,
    exits: { ...history.exits, [lastExit.reason]: (history.exits[lastExit.reason] ?? 0) + 1 },
    recordedRunId: file.runId,
    backoffUntilMs: clock.nowMs() + delayMs,
    lastExit,
  });
  reportPhase(state, { phase: "Backoff", reason: lastExit.reason, message: lastExit.message }, context);
  state.log.warn({ exit: seen.exit, reason: lastExit.reason, delayMs }, "engine exited");
}

async function exitOf(
  file: EngineFile,
  exit: ExitRecord | "unknown",
  logTail: string,
  context: RunnerContext,
): Promise<HistoryExit> {
  const why = file.stop?.why;
  const forced = why !== undefined && isForced(why) ? FORCED[why].reason : undefined;
  const run = { wasReady: file.readyAtMs !== undefined, memory: memoryShortage(context) };
  const driver = context.runtimes.driver(file.runtime);
  const { because, ...ended } = exit === "unknown" ? {} : exit;
  const found =
    forced === undefined
      ? (because ??
        (await driver?.classifyExit(exit, logTail, run)) ?? {
          code: "EngineEndUnknown" as const,
          message: "the engine exited",
        })
      : {
          code: forced,
          message: `the agent killed the engine: ${file.stop?.because ?? "it did not answer"}`,
        };
  return {
    ...ended,
    killedByUs: forced !== undefined,
    reason: found.code,
    message: truncate(describeError(new MetalbridgeError(found.code, found.message)), MESSAGE_MAX),
    at: new Date(context.ports.clock.nowMs()).toISOString(),
    // Before the engine was Ready it had no clients, so its log contains none of their text.
    logTail: run.wasReady ? (driver?.ownLines(logTail) ?? "") : logTail,
  };
}

/** Removes the record of a run that has no process left, and releases its memory. */
export async function forgetRun(state: ReplicaState, context: RunnerContext): Promise<void> {
  await whenRecordWritten(state);
  const run = runOf(state);
  if (run !== undefined) recordDrain(run, context);
  run?.instance.close();
  removeRun(state.dir);
  endRun(state);
  forgetWeights(state);
  context.admission.release(state.uid);
}

/** Counts a requested stop, from the request until no process is left. */
function recordDrain(run: EngineRun, context: RunnerContext): void {
  const { record } = run;
  const requestedAt = run.at === "draining" || run.at === "ended" ? run.stopRequestedAt : undefined;
  const { stop } = record;
  if (stop === undefined || isForced(stop.why)) return;
  const outcome =
    requestedAt === undefined
      ? "ended"
      : requestedAt >= drainEndsAt(stop, context.timings)
        ? "deadline"
        : "quiet";
  countDrain(context.counts, outcome, context.ports.clock.monotonicMs() - stop.startedAt);
}

/** Undefined if memory is not short, or its level is unknown. */
function memoryShortage({ ports }: RunnerContext): RunAtEnd["memory"] {
  const level = ports.memoryLevel?.();
  if (level === "Critical") return "critical";
  return level === "Warning" ? "short" : undefined;
}
