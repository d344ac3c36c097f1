/** The exit of a run: classifies it, records it, releases what it held. */

import { describeError, type ErrorCode, MetalbridgeError } from "../../../src/api/errors.ts";
import type { RunAtEnd } from "../../../src/engines/contract/last-run.ts";
import { truncate } from "../../../src/util/text.ts";
import type { ExitRecord } from "../../instances/instance.ts";
import { removeEngineFile } from "../../instances/run-files/run-directory.ts";
import type { RunnerContext } from "../context.ts";
import { drainEndsAt } from "../evidence/drain-time.ts";
import { isTerminal } from "../evidence/terminal-failures.ts";
import { reportPhase } from "../report/report.ts";
import { countDrain } from "../state/counts.ts";
import type { EngineFile } from "../state/engine-record.ts";
import { type HistoryExit, noteExit, saveHistory, setPast } from "../state/history.ts";
import { type EngineRun, endRun, runOf } from "../state/run.ts";
import { whenRecordWritten } from "../state/save-record.ts";
import { attemptedWeights, type ReplicaState } from "../state/state.ts";
import { forgetWeights } from "../state/weights.ts";
import { crashBackoffMs, isForced } from "./plan.ts";

const TAIL_BYTES = 4_000;
const MESSAGE_MAX = 2_000;
const FORCED_CODE = {
  hung: "EngineHung",
  neverHealthy: "EngineNeverHealthy",
  requestFailed: "EngineRequestFailed",
  degraded: "EngineDegraded",
} as const satisfies Record<string, ErrorCode>;

/** Records how the run ended, and the backoff before the next start. Once per run. */
export async function recordExit(state: ReplicaState, context: RunnerContext): Promise<void> {
  const run = runOf(state);
  const seen = run?.instance.state();
  if (run === undefined || (seen?.at !== "ended" && seen?.at !== "gone")) return;
  const { file, instance, record } = run;
  if (state.past.history.recordedRunId === file.runId) return;
  const logTail = await instance.logTail(TAIL_BYTES).catch(() => "");
  const lastExit = await exitOf(file, seen.exit, logTail, context);
  // Read after the last wait: an eviction may have been noted meanwhile.
  const { history } = state.past;
  const { clock } = context.ports;
  const wasSteady =
    record.readyAt !== undefined && clock.monotonicMs() - record.readyAt >= context.timings.backoffResetMs;
  // The crashes before a run that served for long do not count: its failure is not in its start.
  const crashesInARow = wasSteady ? 1 : history.crashesInARow + 1;
  const delayMs = crashBackoffMs(context.timings, crashesInARow, context.random());
  const runtime = context.runtimes.state(file.runtime);
  // A run that was Ready can be Ready again, whatever its log says: the log contains clients' text.
  const isForGood = file.readyAtMs === undefined && isTerminal(lastExit.reason);
  const terminal =
    isForGood && runtime.at === "present"
      ? { runtimeVersion: runtime.version, weights: attemptedWeights(state) }
      : undefined;
  const { port, ...kept } = history;
  noteExit(state, lastExit, clock.monotonicMs());
  setPast(state, { backoffUntil: clock.monotonicMs() + delayMs });
  saveHistory(state, {
    ...kept,
    // A port that another process took is not used again.
    ...(port === undefined || lastExit.reason === "EnginePortTaken" ? {} : { port }),
    terminal,
    restarts: kept.restarts + 1,
    crashesInARow,
    exits: { ...kept.exits, [lastExit.reason]: (kept.exits[lastExit.reason] ?? 0) + 1 },
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
  const forced = why !== undefined && isForced(why) ? FORCED_CODE[why] : undefined;
  const run = { wasReady: file.readyAtMs !== undefined, ...memoryShortage(context) };
  const driver = context.runtimes.driver(file.runtime);
  const { because, ...ended } = exit === "unknown" ? {} : exit;
  const found =
    forced === undefined
      ? (because ??
        (await driver?.classifyExit(exit, logTail, run)) ?? {
          code: "EngineEndUnknown" as const,
          message: "the engine exited",
        })
      : { code: forced, message: endedBecause(file.stop?.because) };
  return {
    ...ended,
    killedByUs: forced !== undefined,
    reason: found.code,
    message: truncate(describeError(new MetalbridgeError(found.code, found.message)), MESSAGE_MAX),
    at: new Date(context.ports.clock.nowMs()).toISOString(),
    // Before it was Ready it had no clients, so its log has no text of theirs and may have any form.
    logTail: run.wasReady ? (driver?.ownLines(logTail) ?? "") : logTail,
  };
}

function endedBecause(because: string | undefined): string {
  return `the agent killed the engine: ${because ?? "it did not answer"}`;
}

/** Nothing of the run is left: removes its record and releases its memory. */
export async function forgetRun(state: ReplicaState, context: RunnerContext): Promise<void> {
  await whenRecordWritten(state);
  const run = runOf(state);
  if (run !== undefined) recordDrain(run, context);
  run?.instance.close();
  removeEngineFile(state.dir);
  endRun(state);
  forgetWeights(state);
  context.admission.release(state.uid);
}

/** Counts a requested stop, from the request until no process was left. */
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

/**
 * How short the machine's memory is now; absent if it is not short or unknown. Recorded with an engine's
 * exit.
 */
function memoryShortage({ ports }: Pick<RunnerContext, "ports">): Pick<RunAtEnd, "memory"> {
  switch (ports.memoryLevel?.()) {
    case "Critical":
      return { memory: "critical" };
    case "Warning":
      return { memory: "short" };
    default:
      return {};
  }
}
