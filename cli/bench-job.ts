/** `metalbridge bench-job`: measures an engine for the Job of a benchmark, and writes the result as its termination message. */
import { writeFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import type { Command } from "commander";
import {
  BENCHMARK_RUNS,
  BENCHMARK_RUNS_MAX,
  BENCHMARK_TOKENS,
  BENCHMARK_WARMUPS,
  type Measurement,
} from "../src/api/benchmark.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import { renderBenchmarkFailure, renderMeasurement } from "../src/capacity/benchmark/measurement.ts";
import { engineBuild, measureSpeed } from "./bench/speed.ts";
import { parseUrl, urlTarget } from "./bench/url.ts";
import { countParser, parseSeconds } from "./cluster/flags.ts";
import { exitCodes } from "./program/exit-codes.ts";
import { printLine } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface Flags {
  readonly url: URL;
  readonly model?: string;
  readonly health: string;
  readonly build?: string;
  readonly warmups: number;
  readonly runs: number;
  readonly tokens: number;
  readonly seconds?: number;
  readonly sizeBytes?: number;
  readonly result?: string;
}

/** The kubelet starts this program once the engine is healthy; an engine that restarts after that gets this time. */
const HEALTHY_MS = 120_000;
const RETRY_MS = 500;

/** Options and action of the verb. */
export function configureBenchJob(command: Command): void {
  command
    .requiredOption("--url <url>", "address of the engine", parseUrl)
    .option("--model <name>", "name of the model (default: the first model of the engine)")
    .option("--health <path>", "path that answers 200 once the model is loaded", "/health")
    .option("--build <version>", "version of the engine (default: the version that it reports)")
    .option(
      "--warmups <n>",
      "runs before the measurement",
      countParser(0, BENCHMARK_RUNS_MAX),
      BENCHMARK_WARMUPS,
    )
    .option("--runs <n>", "measured runs", countParser(1, BENCHMARK_RUNS_MAX), BENCHMARK_RUNS)
    .option("--tokens <n>", "tokens that each run generates", countParser(2, 1024), BENCHMARK_TOKENS)
    .option("--seconds <n>", "start no further run after this time", parseSeconds)
    .option("--size-bytes <n>", "size of the model's files", Number)
    .option("--result <file>", "write the result to this file, as JSON of at most 4096 bytes")
    .action(benchJob);
}

async function benchJob(flags: Flags): Promise<void> {
  const { signal, exitCode } = listenForStop();
  const write = (text: string) => {
    if (flags.result !== undefined) writeFileSync(flags.result, text);
    printLine(text);
  };
  try {
    write(renderMeasurement(await measure(flags, signal)));
  } catch (error) {
    if (signal.aborted) {
      process.exitCode = exitCode() || exitCodes.failed;
      return;
    }
    if (!(error instanceof MetalbridgeError)) throw error;
    write(renderBenchmarkFailure(error.message));
    process.exitCode = exitCodes.failed;
  }
}

async function measure(flags: Flags, signal: AbortSignal): Promise<Measurement> {
  const { url, warmups, runs, tokens, seconds, sizeBytes } = flags;
  const startedMs = performance.now();
  const wasHealthy = await untilHealthy(new URL(flags.health, url), signal);
  const loadSeconds = wasHealthy ? undefined : (performance.now() - startedMs) / 1_000;
  const target = await urlTarget(url, { model: flags.model, signal });
  const speed = await measureSpeed({
    target,
    plan: { warmups, runs, tokens, minSeconds: seconds },
    signal,
  });
  const build = flags.build ?? (await engineBuild(target, signal)) ?? "unknown";
  const measuredAt = new Date().toISOString();
  return { build, sizeBytes, measuredAt, tool: "requests", ...speed, loadSeconds };
}

/** True if the engine was healthy at once. Throws BenchmarkFailed. */
async function untilHealthy(url: URL, signal: AbortSignal): Promise<boolean> {
  const endMs = performance.now() + HEALTHY_MS;
  for (let tries = 0; ; tries += 1) {
    const answer = await fetch(url, { signal }).then(
      ({ ok, status }) => (ok ? undefined : `answered ${status}`),
      (error: unknown) => {
        if (signal.aborted) throw error;
        return "does not answer";
      },
    );
    if (answer === undefined) return tries === 0;
    if (performance.now() >= endMs)
      throw new MetalbridgeError(
        "BenchmarkFailed",
        `the engine ${answer} at ${url} for ${HEALTHY_MS / 1_000} s`,
      );
    await setTimeout(RETRY_MS, undefined, { signal });
  }
}
