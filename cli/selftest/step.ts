/** One proof after the other, each within its limit; whatever they started is ended and removed afterwards. */
import type { AgentConfig } from "../../agent/config/schema.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { Reading } from "../../src/doctor/readings.ts";
import type { RunTool } from "../../src/util/command.ts";

/** failed: this machine contradicts what the code assumes. unknown: it could not be read. */
export interface Outcome {
  readonly status: "ok" | "failed" | "unknown" | "notApplicable";
  readonly found: string;
}

export interface Step {
  readonly name: string;
  /** The fact that holds if the step passes. */
  readonly proves: string;
  readonly platforms: readonly AgentConfig["platform"][];
  readonly limitMs?: number;
  /** A rejection is a failure. */
  readonly run: (bench: Bench) => Promise<Outcome>;
}

export interface Result extends Outcome {
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
  steps: readonly Step[],
  bench: Omit<Bench, "signal" | "cleanUp">,
  { stop, onResult }: { readonly stop: AbortSignal; readonly onResult: (result: Result) => void },
): Promise<readonly Result[]> {
  const undos: (() => Promise<void>)[] = [];
  const cleanUp = (undo: () => Promise<void>): void => void undos.push(undo);
  const results: Result[] = [];
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

async function runStep(step: Step, bench: Omit<Bench, "signal">, stop: AbortSignal): Promise<Result> {
  const { name, proves, limitMs = LIMIT_MS } = step;
  const startMs = performance.now();
  const signal = AbortSignal.any([stop, AbortSignal.timeout(limitMs)]);
  const late: Outcome = { status: "failed", found: `not done within ${limitMs / 1_000} s` };
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

function rejected(error: unknown): Outcome {
  if (error instanceof MetalbridgeError) return failed(`${error.code}: ${error.message}`);
  return failed(error instanceof Error ? error.message : String(error));
}

export const ok = (found: string): Outcome => ({ status: "ok", found });
export const failed = (found: string): Outcome => ({ status: "failed", found });
export const unknown = (found: string): Outcome => ({ status: "unknown", found });
export const notApplicable = (found: string): Outcome => ({ status: "notApplicable", found });

/** A tool whose answer is not understood contradicts the reader. */
export function understood<T>(reading: Reading<T>, describe: (value: T) => string): Outcome {
  return "unknown" in reading ? failed(reading.unknown) : ok(describe(reading.value));
}
