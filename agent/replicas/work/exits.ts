/** The end of a run: classified, written down, and given back. */
import { rmSync } from "node:fs";
import { describeError, type ErrorCode, MetalbridgeError } from "../../../src/errors.ts";
import { drainEndsAt } from "../../../src/replica/evidence/drain-time.ts";
import { isForced } from "../../../src/replica/step.ts";
import { backoffMs } from "../../../src/replica/timings.ts";
import { isHopeless } from "../../../src/replica/verdicts.ts";
import type { ExitRecord } from "../../process/engine-process.ts";
import type { RunnerContext } from "../context.ts";
import { type EngineFile, removeEngineFile } from "../files/engine-record.ts";
import { type HistoryExit, writeHistory } from "../files/history.ts";
import { weightsTried } from "../files/weights.ts";
import { countDrain } from "../metrics/counts.ts";
import { memoryTrouble, noteExit } from "../pressure.ts";
import { freshRun, type ReplicaState, setFile } from "../state.ts";

const TAIL_BYTES = 4_000;
const MESSAGE_MAX = 2_000;
const FORCED_CODE = {
  hung: "EngineHung",
  neverHealthy: "EngineNeverHealthy",
  requestFailed: "EngineRequestFailed",
  degraded: "EngineDegraded",
} as const satisfies Record<string, ErrorCode>;

/** Writes down how the run ended and how long the next start is held back. Once per run. */
export async function recordExit(state: ReplicaState, context: RunnerContext): Promise<void> {
  const { file, process } = state;
  const seen = process?.state();
  if (file === undefined || process === undefined || (seen?.at !== "ended" && seen?.at !== "gone")) return;
  if (state.history.recordedRunId === file.runId) return;
  const logTail = await process.logTail(TAIL_BYTES).catch(() => "");
  const lastExit = exitOf(file, seen.exit, logTail, context);
  const { clock } = context.ports;
  const wasSteady =
    state.record?.readyAt !== undefined &&
    clock.monotonicMs() - state.record.readyAt >= context.timings.backoffResetMs;
  const crashesInARow = wasSteady ? 1 : state.history.crashesInARow + 1;
  const delayMs = backoffMs(context.timings, crashesInARow, context.random());
  const runtime = context.runtimes.state(file.runtime);
  // What has served can serve again, whatever its log says: clients' own text is in it.
  const isForGood = file.readyAtMs === undefined && isHopeless(lastExit.reason);
  const hopelessWith = isForGood && runtime.at === "present" ? runtime.version : undefined;
  const { port, hopelessWith: _, hopelessWeights: __, ...kept } = state.history;
  noteExit(state, lastExit, clock.monotonicMs());
  state.backoffUntil = clock.monotonicMs() + delayMs;
  state.history = {
    ...kept,
    // A port that a stranger took is not asked for again.
    ...(port === undefined || lastExit.reason === "EnginePortTaken" ? {} : { port }),
    ...(hopelessWith === undefined ? {} : { hopelessWith, hopelessWeights: weightsTried(state) }),
    restarts: kept.restarts + 1,
    crashesInARow,
    exits: { ...kept.exits, [lastExit.reason]: (kept.exits[lastExit.reason] ?? 0) + 1 },
    recordedRunId: file.runId,
    backoffUntilMs: clock.nowMs() + delayMs,
    lastExit,
  };
  writeHistory(state.dir, state.history);
  state.log.warn({ exit: seen.exit, reason: lastExit.reason, delayMs }, "engine ended");
}

function exitOf(
  file: EngineFile,
  exit: ExitRecord | "unknown",
  logTail: string,
  context: RunnerContext,
): HistoryExit {
  const why = file.stop?.why;
  const forced = why !== undefined && isForced(why) ? FORCED_CODE[why] : undefined;
  const run = { wasReady: file.readyAtMs !== undefined, ...memoryTrouble(context) };
  const found =
    forced === undefined
      ? (context.runtimes.driver(file.runtime)?.classifyExit(exit, logTail, run) ?? {
          code: "EngineEndUnknown" as const,
          message: "the engine ended",
        })
      : { code: forced, message: endedBecause(file.stop?.because) };
  return {
    ...(exit === "unknown" ? {} : exit),
    killedByUs: forced !== undefined,
    reason: found.code,
    message: describeError(new MetalbridgeError(found.code, found.message)).slice(0, MESSAGE_MAX),
    at: new Date(context.ports.clock.nowMs()).toISOString(),
    logTail,
  };
}

function endedBecause(because: string | undefined): string {
  return `the agent ended the engine: ${because ?? "it did not answer"}`;
}

/** Nothing of the run is left: its record goes, and its memory with it. */
export function forgetRun(state: ReplicaState, context: RunnerContext): void {
  noteDrain(state, context);
  state.process?.close();
  state.process = undefined;
  removeEngineFile(state.dir);
  setFile(state, undefined, context.moment());
  state.run = freshRun();
  state.model = { at: "unknown" };
  state.launch = { at: "untried" };
  context.admission.release(state.uid);
}

/** A stop that was asked for, from then until nothing was left. */
function noteDrain({ record, run }: ReplicaState, context: RunnerContext): void {
  const stop = record?.stop;
  if (stop === undefined || isForced(stop.why)) return;
  const { termAt } = run.signals;
  const outcome =
    termAt === undefined ? "ended" : termAt >= drainEndsAt(stop, context.timings) ? "deadline" : "quiet";
  countDrain(context.counts, outcome, context.ports.clock.monotonicMs() - stop.startedAt);
}

/** Nothing of the replica is left: its files go too. */
export function forgetReplica(state: ReplicaState, context: RunnerContext): void {
  state.process?.close();
  rmSync(state.dir, { recursive: true, force: true });
  context.desiredFiles.remove(state.uid);
  context.ports.store.release(state.uid);
  context.admission.forget(state.uid);
  context.states.delete(state.uid);
  state.log.info({}, "replica let go");
}
