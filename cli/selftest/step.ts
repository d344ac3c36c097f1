/** One proof after the other, each within its limit; whatever they started is ended and removed afterwards. */
import type { AgentConfig } from "../../agent/config/schema.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { Reading } from "../../src/doctor/readings.ts";
import type { RunTool } from "../../src/util/command.ts";
import { errorMessage } from "../../src/util/error-message.ts";

/** failed: this machine contradicts what the code assumes. unknown: it could not be read. */
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

/** What steps work with. */
export interface Bench {
  readonly config: AgentConfig;
  /** Tools whose answers may be recorded. */
  readonly run: RunTool;
  /** The same tools for answers that name other programs of this user, and are never recorded. */
  readonly runPrivately: RunTool;
  /** Where programs are searched. */
  readonly path: string;
  readonly env: Readonly<Record<string, string>>;
  /** The tools are those of another machine: their answers cannot be compared with this one. */
  readonly isReplayed: boolean;
  /** Removed at the end. */
  readonly folder: string;
  /** Aborted at the step's limit, and by Ctrl-C. */
  readonly signal: AbortSignal;
  /** Runs when all steps are done, the last one first. */
  readonly cleanUp: (undo: () => Promise<void>) => void;
}

const LIMIT_MS = 60_000;
const CLEAN_UP_MS = 10_000;

/** Only steps of this system. Ends early, without the remaining results, once `stop` is aborted. */
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
  const late: SelftestOutcome = { status: "failed", found: `not done within ${limitMs / 1_000} s` };
  const outcome = (await settled(step.run({ ...bench, signal }).catch(rejected), signal)) ?? late;
  return { name, proves, ...outcome, tookMs: Math.round(performance.now() - startMs) };
}

/** Undefined where the signal came first. */
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

/** A tool whose answer is not understood contradicts the reader. */
export function interpretReading<T>(reading: Reading<T>, describe: (value: T) => string): SelftestOutcome {
  return "unknown" in reading ? failedStep(reading.unknown) : passedStep(describe(reading.value));
}
