/** Runs the benchmark program of an engine, one process after the other, and combines what they print, with their footprint and power. */

import { spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { BenchmarkOrder, Measurement } from "../../src/api/benchmark.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { rateOf } from "../../src/capacity/benchmark/measurement.ts";
import type { BenchSamples, BenchSeries } from "../../src/engines/contract/bench.ts";
import { removeRun } from "../../src/supervise/run-directory.ts";
import { isoSeconds } from "../../src/util/iso-seconds.ts";
import { parseJson } from "../../src/util/parse-json.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { truncate } from "../../src/util/text.ts";
import type { EngineBench } from "../engines/driver/engine.ts";
import { locateProgram } from "../engines/driver/program.ts";
import type { Instance } from "../instances/instance.ts";
import type { ProcessInstances } from "../instances/process/process-instance.ts";
import type { StoredModel } from "../store/types.ts";
import { BENCH_DEADLINE_MS, nextRound, type Round } from "./rounds.ts";

export interface MeasurePorts {
  /** Folder of the running process, which the next agent adopts to kill it. */
  readonly dir: string;
  readonly processes: ProcessInstances;
  readonly platform: "darwin" | "linux";
  readonly clock: Clock;
  readonly log: Log;
  /** Aborting kills the process at once. */
  readonly signal: AbortSignal;
}

export interface Measured {
  readonly order: BenchmarkOrder;
  readonly bench: EngineBench;
  readonly program: string;
  readonly model: StoredModel;
}

const OUTPUT_BYTES = 1 << 20;
const LOG_TAIL = 300;
/** The first readings of the footprint follow quickly, for tiny models; a reading starts a tool on a Mac. */
const FOOTPRINT_FIRST_MS = 250;
const FOOTPRINT_MAX_MS = 5_000;

interface ProcessResult {
  readonly output: string;
  readonly tookMs: number;
  readonly peakBytes: number;
}

/** What the processes until now have shown. */
interface Findings {
  done: BenchSamples;
  peakBytes: number;
  loadSeconds?: number | undefined;
  watts?: number | undefined;
}

/** Throws MetalbridgeError if generation could not be measured, and the reason of the signal if it was aborted. */
export async function measure(measured: Measured, ports: MeasurePorts): Promise<Omit<Measurement, "build">> {
  const { order, bench } = measured;
  const { clock, log, signal } = ports;
  const startedAt = clock.monotonicMs();
  const findings: Findings = { done: {}, peakBytes: 0 };
  for (;;) {
    const elapsedMs = clock.monotonicMs() - startedAt;
    const round = nextRound(bench.tests, order.plan, findings.done, elapsedMs);
    if (round === undefined) break;
    try {
      await addRound(findings, round, measured, ports, BENCH_DEADLINE_MS - elapsedMs);
    } catch (error) {
      signal.throwIfAborted();
      if (findings.done.generation === undefined) throw error;
      // The result has the other figures without it.
      log.warn({ err: error }, "the benchmark ends without its last tests");
      break;
    }
  }
  return measurementOf(findings, measured, clock);
}

/** The first process generates only, so its power and the time of its start are recorded. */
async function addRound(
  findings: Findings,
  round: Round,
  measured: Measured,
  ports: MeasurePorts,
  timeoutMs: number,
): Promise<void> {
  const { bench } = measured;
  const isFirst = findings.done.generation === undefined;
  const power = isFirst ? await watchPower(ports.platform, bench.env(ports.dir)) : undefined;
  try {
    const { output, tookMs, peakBytes } = await runRound(round, measured, ports, timeoutMs);
    const all = bench.parse(output);
    findings.done = withSamples(findings.done, all, round, bench);
    findings.peakBytes = Math.max(findings.peakBytes, peakBytes);
    if (isFirst) findings.loadSeconds = loadSecondsOf(all, round, measured, tookMs);
  } finally {
    findings.watts ??= power?.stop();
  }
}

function measurementOf(
  { done, peakBytes, loadSeconds, watts }: Findings,
  { bench, model }: Measured,
  clock: Clock,
): Omit<Measurement, "build"> {
  const generation = rateOf(done.generation ?? []);
  if (generation === undefined)
    throw new MetalbridgeError("BenchmarkFailed", `${bench.tool} measured nothing`);
  const prompt512 = rateOf(done.prompt512 ?? []);
  return {
    sizeBytes: model.sizeBytes,
    measuredAt: isoSeconds(clock.nowMs()),
    tool: bench.tool,
    generation,
    generationAt4096: rateOf(done.generationAt4096 ?? []),
    prompt512,
    prompt4096: rateOf(done.prompt4096 ?? []),
    timeToFirstTokenSeconds: prompt512 && 512 / prompt512.median + 1 / generation.median,
    loadSeconds,
    peakBytes: peakBytes === 0 ? undefined : peakBytes,
    watts,
  };
}

/** The warm-ups of a round are its first runs. */
function withSamples(
  done: BenchSamples,
  all: BenchSamples,
  { test, discarded }: Round,
  { tool, ownWarmups }: EngineBench,
): BenchSamples {
  const wanted = [test.prompt?.series, test.generation?.series].filter((one) => one !== undefined);
  const added = wanted.map((series): [BenchSeries, readonly number[]] => {
    const found = (all[series] ?? []).slice(Math.max(0, discarded - ownWarmups));
    if (found.length > 0) return [series, [...(done[series] ?? []), ...found]];
    throw new MetalbridgeError("BenchmarkFailed", `${tool} printed no result of the test ${series}`);
  });
  return { ...done, ...Object.fromEntries(added) };
}

/** The time of the process that is not the time of its runs: those that are printed, and its own warm-ups. */
function loadSecondsOf(
  all: BenchSamples,
  { test: { prompt, generation } }: Round,
  { order, bench }: Measured,
  tookMs: number,
): number | undefined {
  const secondsOf = (series: BenchSeries | undefined, tokens: number): number => {
    const rates = series === undefined ? [] : (all[series] ?? []);
    const printed = rates.reduce((sum, rate) => sum + tokens / rate, 0);
    return rates.length === 0 ? 0 : printed * (1 + bench.ownWarmups / rates.length);
  };
  const runs =
    secondsOf(generation?.series, order.plan.tokens) + secondsOf(prompt?.series, prompt?.tokens ?? 0);
  return runs === 0 ? undefined : Math.max(0, tookMs / 1_000 - runs);
}

async function runRound(
  { test, runs, discarded }: Round,
  { order, bench, program, model }: Measured,
  { dir, processes, clock, log, signal }: MeasurePorts,
  timeoutMs: number,
): Promise<ProcessResult> {
  signal.throwIfAborted();
  const { plan, settings, key } = order;
  const args = bench.args({
    modelPath: model.path,
    settings,
    test,
    tokens: plan.tokens,
    runs: runs + Math.max(0, discarded - bench.ownWarmups),
  });
  rmSync(join(dir, "log"), { force: true });
  let onChange = (): void => {};
  const place = { dir, log, onChange: () => onChange() };
  const startedAt = clock.monotonicMs();
  const launch = { argv: [program, ...args], env: bench.env(dir), record: { benchmark: key } };
  const instance = await processes.open(place, { ...launch, target: { host: "127.0.0.1", port: 0 } });
  const footprint = watchFootprint(instance, clock);
  let isLate = false;
  const cancel = clock.after(timeoutMs, () => {
    isLate = true;
    instance.killNow();
  });
  const kill = (): void => instance.killNow();
  signal.addEventListener("abort", kill, { once: true });
  if (signal.aborted) kill();
  const exit = await new Promise<unknown>((resolve) => {
    onChange = () => {
      const state = instance.state();
      // Children that outlive the program are killed too.
      if (state.at === "ended") instance.killNow();
      if (state.at === "gone") resolve(state.exit);
    };
    onChange();
  });
  const tookMs = clock.monotonicMs() - startedAt;
  cancel();
  signal.removeEventListener("abort", kill);
  const peakBytes = footprint.stop();
  const output = await instance.logTail(OUTPUT_BYTES);
  instance.close();
  removeRun(dir);
  signal.throwIfAborted();
  if (isLate)
    throw new MetalbridgeError(
      "BenchmarkTimedOut",
      `${bench.tool} was not complete after ${BENCH_DEADLINE_MS / 60_000} minutes`,
    );
  if (!isSuccess(exit)) throw exitError(program, exit, output);
  return { output, tookMs, peakBytes };
}

function isSuccess(exit: unknown): boolean {
  return typeof exit === "object" && exit !== null && "code" in exit && exit.code === 0;
}

function exitError(program: string, exit: unknown, output: string): MetalbridgeError {
  const said = truncate(output.trim().slice(-LOG_TAIL), LOG_TAIL).replace(/\s*\n\s*/g, " | ");
  return new MetalbridgeError(
    "BenchmarkEngineFailed",
    `${program} ended with ${JSON.stringify(exit)}: ${said}`,
  );
}

function watchFootprint(instance: Instance, clock: Clock): { readonly stop: () => number } {
  let peakBytes = 0;
  let cancel = (): void => {};
  let isStopped = false;
  const read = async (waitMs: number): Promise<void> => {
    peakBytes = Math.max(peakBytes, (await instance.footprintBytes()) ?? 0);
    if (!isStopped) cancel = clock.after(waitMs, () => void read(Math.min(2 * waitMs, FOOTPRINT_MAX_MS)));
  };
  void read(FOOTPRINT_FIRST_MS);
  return {
    stop: () => {
      isStopped = true;
      cancel();
      return peakBytes;
    },
  };
}

interface PowerProgram {
  readonly name: string;
  readonly paths: readonly string[];
  readonly args: readonly string[];
  /** Watts of one line; undefined if it has none. */
  readonly parse: (line: string) => number | undefined;
}

const PROGRAMS: Readonly<Record<"darwin" | "linux", PowerProgram>> = {
  darwin: {
    name: "macmon",
    paths: ["/opt/homebrew/bin/macmon", "/usr/local/bin/macmon"],
    args: ["pipe", "-i", "1000"],
    parse: parseMacmon,
  },
  linux: {
    name: "nvidia-smi",
    paths: [],
    // One line per GPU and second; without a GPU the program fails at once.
    args: ["--query-gpu=count,power.draw", "--format=csv,noheader,nounits", "-l", "1"],
    parse: parseNvidia,
  },
};

interface PowerWatch {
  /** Stops reading. Mean of the readings in watts; undefined if there are none. */
  readonly stop: () => number | undefined;
}

/** Starts the platform's program, if it is installed. It ends with the agent, when it can no longer write to it. */
async function watchPower(
  platform: "darwin" | "linux",
  env: Readonly<Record<string, string>>,
): Promise<PowerWatch> {
  const { name, paths, args, parse } = PROGRAMS[platform];
  const path = await locateProgram(name, { paths, env }).catch(() => undefined);
  if (path === undefined) return { stop: () => undefined };
  const watts: number[] = [];
  const child = spawn(path.path, args, { env, stdio: ["ignore", "pipe", "ignore"] });
  child.once("error", () => {});
  createInterface({ input: child.stdout }).on("line", (line) => {
    const found = parse(line);
    if (found !== undefined && Number.isFinite(found) && found >= 0) watts.push(found);
  });
  return {
    stop: () => {
      child.kill("SIGKILL");
      return watts.length === 0 ? undefined : watts.reduce((sum, one) => sum + one, 0) / watts.length;
    },
  };
}

/** `sys_power` is that of the whole machine; some Macs report only that of the chip. */
export function parseMacmon(line: string): number | undefined {
  const value = parseJson(line);
  if (typeof value !== "object" || value === null) return undefined;
  const powers = value as { readonly sys_power?: unknown; readonly all_power?: unknown };
  return [powers.sys_power, powers.all_power].find(
    (one): one is number => typeof one === "number" && one > 0,
  );
}

/** The mean of all lines is that of one GPU, so each line is multiplied by the number of GPUs. */
export function parseNvidia(line: string): number | undefined {
  const [count = Number.NaN, draw = Number.NaN] = line.split(",").map(Number);
  return count > 0 && draw >= 0 ? count * draw : undefined;
}
