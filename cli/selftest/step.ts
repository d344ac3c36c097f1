/** Runs the steps of selftest in sequence, each with a time limit, and cleans up afterwards. */
import type { AgentConfig } from "../../agent/config/schema.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { Reading } from "../../src/doctor/readings.ts";
import type { RunTool } from "../../src/util/command.ts";
import { errorMessage } from "../../src/util/error-message.ts";

/** failed: this machine contradicts an assumption of the code. unknown: the fact could not be read. */
export interface SelftestOutcome {
  readonly status: "ok" | "failed" | "unknown" | "notApplicable";
  readonly found: string;
}

export interface SelftestStep {
  readonly name: string;
  /** The fact that holds if the step passes. */
  readonly proves: string;
  readonly platforms: readonly AgentConfig["platform"][];
  readonly limitMs?: number;
  /** A rejection is a failure. */
  readonly run: (bench: Bench) => Promise<SelftestOutcome>;
}

export interface SelftestResult extends SelftestOutcome {
  readonly name: string;
  readonly proves: string;
  readonly tookMs: number;
}

/** The environment of the steps. */
export interface Bench {
  readonly config: AgentConfig;
  /** Runs tools; their output may be recorded. */
  readonly run: RunTool;
  /** Runs the same tools without recording, for output that names other programs of the user. */
  readonly runPrivately: RunTool;
  /** PATH for programs. */
  readonly path: string;
  readonly env: Readonly<Record<string, string>>;
  /** True if the output of tools is from another machine and cannot be compared with this one. */
  readonly isReplayed: boolean;
  /** Temporary folder, which is removed at the end. */
  readonly folder: string;
  /** Aborted at the time limit of the step, and by Ctrl-C. */
  readonly signal: AbortSignal;
  /** Registers a function that runs after all steps, in reverse order. */
  readonly cleanUp: (undo: () => Promise<void>) => void;
}

const LIMIT_MS = 60_000;
const CLEAN_UP_MS = 10_000;

/** Runs the steps for this platform. Returns early, without the remaining results, if `stop` is aborted. */
export async function runSteps(
  steps: readonly SelftestStep[],
  bench: Omit<Bench, "signal" | "cleanUp">,
  { stop, onResult }: { readonly stop: AbortSignal; readonly onResult: (result: SelftestResult) => void },
): Promise<readonly SelftestResult[]> {
  const undos: (() => Promise<void>)[] = [];
  const cleanUp = (undo: () => Promise<void>): void => void undos.push(undo);
  const results: SelftestResult[] = [];
  try {
    for (const step of steps.filter(({ platforms }) => platforms.includes(bench.config.platform))) {
      const result = await runStep(step, { ...bench, cleanUp }, stop);
      if (stop.aborted) break;
      results.push(result);
      onResult(result);
    }
  } finally {
    for (const undo of undos.reverse())
      await settled(
        undo().catch(() => {}),
        AbortSignal.timeout(CLEAN_UP_MS),
      );
  }
  return results;
}

async function runStep(
  step: SelftestStep,
  bench: Omit<Bench, "signal">,
  stop: AbortSignal,
): Promise<SelftestResult> {
  const { name, proves, limitMs = LIMIT_MS } = step;
  const startMs = performance.now();
  const signal = AbortSignal.any([stop, AbortSignal.timeout(limitMs)]);
  const timedOut: SelftestOutcome = { status: "failed", found: `not finished within ${limitMs / 1_000} s` };
  const outcome = (await settled(step.run({ ...bench, signal }).catch(rejected), signal)) ?? timedOut;
  return { name, proves, ...outcome, tookMs: Math.round(performance.now() - startMs) };
}

/** Undefined if the signal is aborted first. */
async function settled<T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  let stop = (): void => {};
  const aborted = new Promise<undefined>((resolve) => {
    stop = () => resolve(undefined);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
  });
  return Promise.race([work, aborted]).finally(() => signal.removeEventListener("abort", stop));
}

function rejected(error: unknown): SelftestOutcome {
  if (error instanceof MetalbridgeError) return failedStep(`${error.code}: ${error.message}`);
  return failedStep(errorMessage(error));
}

export const passedStep = (found: string): SelftestOutcome => ({ status: "ok", found });
export const failedStep = (found: string): SelftestOutcome => ({ status: "failed", found });
export const unknownStep = (found: string): SelftestOutcome => ({ status: "unknown", found });
export const notApplicableStep = (found: string): SelftestOutcome => ({ status: "notApplicable", found });

/** Output that the reader cannot parse is a failure. */
export function interpretReading<T>(reading: Reading<T>, describe: (value: T) => string): SelftestOutcome {
  return "unknown" in reading ? failedStep(reading.unknown) : passedStep(describe(reading.value));
}
