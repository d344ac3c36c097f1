/** Overhead of the agent's benchmark over llama-bench: both measure one model in turn, with the same arguments. */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { measure } from "../../../agent/benchmark/measure.ts";
import { findBeside } from "../../../agent/engines/driver/program.ts";
import { createInstances } from "../../../agent/instances/instances.ts";
import { readPartsConfig } from "../../../local/control-plane/config.ts";
import { findLlamaServer } from "../../../local/control-plane/engine-programs.ts";
import { writeTinyModel } from "../../../local/demo/tiny-model.ts";
import { benchmarkOrderSchema } from "../../../src/api/benchmark.ts";
import { rateOf } from "../../../src/capacity/benchmark/measurement.ts";
import { llamaBench } from "../../../src/engines/llamacpp/bench.ts";
import { systemClock } from "../../../src/kube/system-clock.ts";
import type { Log } from "../../../src/util/ports.ts";
import { measured, type ScenarioResult } from "../beds/measurement.ts";

const PAIRS = 9;
const PLAN = { warmups: 2, runs: 5, tokens: 128 };
/** A run takes about 1 s on two cores: shorter ones differ by the noise of the machine. */
const SHAPE = { layers: 8, embeddingSize: 512, heads: 8, kvHeads: 8, feedForwardSize: 2048 };

/** Needs llama-bench beside llama-server, and a quiet machine. */
export async function measureHostBenchmark(): Promise<readonly ScenarioResult[]> {
  const program = await findBeside("llama-bench", findLlamaServer(readPartsConfig()));
  const folder = mkdtempSync(path.join(tmpdir(), "mb-host-benchmark-"));
  try {
    const { path: modelPath, sizeBytes } = await writeTinyModel(path.join(folder, "model.gguf"), SHAPE);
    const model = { path: modelPath, sizeBytes, files: [] };
    const [test] = llamaBench.tests;
    if (test === undefined) throw new Error("llama-bench has no test");
    const { warmups, runs, tokens } = PLAN;
    const args = llamaBench.args({ modelPath, settings: {}, test, tokens, runs: warmups + runs });
    const byHand = async (): Promise<number> => {
      // In a session of its own, like the agent's: the kernel shares the processors among sessions.
      const { stdout } = await promisify(execFile)("setsid", ["--wait", program, ...args]);
      return rateOf(llamaBench.parse(stdout).generation?.slice(warmups) ?? [])?.median ?? Number.NaN;
    };
    const byAgent = agentMeasures(program, path.join(folder, "state"), model);
    const pairs: (readonly [hand: number, agent: number])[] = [];
    for (let pair = 0; pair < PAIRS; pair++) pairs.push([await byHand(), await byAgent()]);
    const overhead = pairs.map(([hand, agent]) => (hand / agent - 1) * 100);
    const agents = pairs.map(([, agent]) => agent);
    const between = agents.slice(1).map((one, at) => Math.abs(one / (agents[at] ?? one) - 1) * 100);
    return [
      measured("benchmark by the agent: slower than llama-bench by hand", "%", overhead, { p50: 1 }),
      measured("benchmark by the agent: two runs differ", "%", between, { p50: 3 }),
    ];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function agentMeasures(
  program: string,
  stateDir: string,
  model: Parameters<typeof measure>[0]["model"],
): () => Promise<number> {
  const log: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => log };
  const instances = createInstances({
    stateDir,
    clock: systemClock,
    log,
    footprintBytes: async () => undefined,
  });
  const env = { PATH: process.env.PATH ?? "" };
  // Generation alone, which is what the other side measures.
  const bench = {
    ...llamaBench,
    tests: llamaBench.tests.slice(0, 1),
    find: async () => program,
    env: () => env,
  };
  const order = benchmarkOrderSchema.parse({
    key: "bench",
    namespace: "default",
    name: "bench",
    model: { source: model.path, format: "gguf" },
    runtime: "llamacpp",
    deviceClass: "bench",
    settings: {},
    plan: PLAN,
  });
  const { signal } = new AbortController();
  return async () => {
    const ports = { dir: path.join(stateDir, "benchmark"), platform: "linux", signal } as const;
    const result = await measure(
      { order, bench, program, model },
      { ...ports, processes: instances.processes, clock: systemClock, log },
    );
    return result.generation.median;
  };
}
