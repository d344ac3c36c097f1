/** Benchmark Jobs on nodes of two GPU classes, with the real API server, scheduler, Job controller and controller. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Measurement } from "../../../src/api/benchmark.ts";
import { getCondition } from "../../../src/api/conditions.ts";
import { LABEL_BENCHMARK, NAMESPACE_SYSTEM } from "../../../src/api/group.ts";
import { MODELS } from "../../../src/api/kinds.ts";
import { renderMeasurement } from "../../../src/capacity/benchmark/measurement.ts";
import { subjectOf } from "../../../src/capacity/benchmark/subject.ts";
import { BENCHMARKS_NAME, benchmarkKey, readBenchmarks } from "../../../src/capacity/benchmark/table.ts";
import { GGUF } from "../../../src/capacity/testing/models.ts";
import { CONFIG_MAPS, JOBS } from "../../../src/kube/kinds.ts";
import { whyNoSimulatedNodes } from "../../../test/bed/kwok.ts";
import { must } from "../../../test/bed/must.ts";
import { until } from "../../../test/bed/until.ts";
import {
  type Bench,
  createNamespaceWithCache,
  gpuNode,
  inferenceService,
  startBench,
} from "../../../test/controller/bench.ts";
import { createObserver } from "../../pods/fixtures/observe.ts";
import { benchmarkLabel } from "./job.ts";

const why = whyNoSimulatedNodes();
const NS = "measured";
const L40S = "nvidia-l40s";
const H200 = "nvidia-h200";
const GIB = 1024 ** 3;

describe.skipIf(why !== undefined)(`benchmark Jobs (${why ?? "simulated nodes"})`, () => {
  let bench: Bench;

  beforeAll(async () => {
    bench = await startBench({
      flags: { benchmarks: "Auto", engineImages: "llamacpp=registry.example/llama:build-1" },
      nodes: [
        gpuNode("l40s-1", "NVIDIA-L40S", 45, 1),
        gpuNode("l40s-2", "NVIDIA-L40S", 45, 1),
        gpuNode("h200-1", "NVIDIA-H200", 141, 1),
      ],
    });
    await createNamespaceWithCache(bench, NS);
  });
  afterAll(() => bench?.[Symbol.asyncDispose](), 60_000);

  const { nodesOf } = createObserver(NS, () => bench);

  /** From now on the Job of this class leaves this measurement. */
  const measure = async (deviceClass: string, build: string, tokensPerSecond: number) => {
    const model = must(await bench.client.get(MODELS, { name: "qwen", namespace: NS }));
    const subject = subjectOf(model, undefined, { runtime: "llamacpp", gpusPerPod: 1 });
    if (subject === undefined) throw new Error("the Model is not resolved");
    const key = benchmarkKey(subject, deviceClass);
    const measurement: Measurement = {
      build,
      measuredAt: new Date().toISOString(),
      tool: "requests",
      generation: { median: tokensPerSecond, spread: 0, samples: [tokensPerSecond] },
    };
    const labels = { [LABEL_BENCHMARK]: benchmarkLabel(key) };
    await bench.direct(NS, { outcome: "complete", message: renderMeasurement(measurement) }, labels);
  };

  /** Waits until the ConfigMap has exactly these speeds, and no Job is left. */
  const measured = (expected: Readonly<Record<string, number>>) =>
    until(async () => {
      const ref = { name: BENCHMARKS_NAME, namespace: NAMESPACE_SYSTEM };
      const { results } = readBenchmarks(must(await bench.client.get(CONFIG_MAPS, ref)));
      const speeds = [...results.values()].map(({ deviceClass, generation }) => [
        deviceClass,
        generation.median,
      ]);
      expect(Object.fromEntries(speeds)).toEqual(expected);
      expect(must(await bench.client.list(JOBS, { namespace: NS })).items).toEqual([]);
    });

  const prefers = (name: string, message: RegExp) =>
    bench.serviceUntil(NS, name, ({ status }) =>
      expect(getCondition(status?.conditions, "NodesScored")?.message).toMatch(message),
    );

  const serve = async (name: string) => {
    await bench.apply(
      inferenceService(NS, name, { modelRef: "qwen", placement: { mode: "Auto" }, rollout: { maxSurge: 1 } }),
    );
    await bench.serviceUntil(NS, name, ({ status }) => expect(status).toMatchObject({ phase: "Ready" }));
  };

  test("a new Model is measured once per class, its pods start on the faster class, and both follow a new build", async () => {
    const size = 5 * GIB;
    const source = "hf://bartowski/Qwen2.5-7B-Instruct-GGUF/Qwen2.5-7B-Instruct-Q4_K_M.gguf";
    await bench.model(NS, "qwen", { accelerator: "cuda", gib: 5, source, gpus: 1, isOnVolume: false });
    const resolved = {
      ...{ format: "gguf" as const, gguf: GGUF, files: ["qwen.gguf"], sizeBytes: size, weightsBytes: size },
      sha256: "ab".repeat(32),
    } as const;
    await bench.markReady(NS, "qwen", resolved);
    await measure(L40S, "build-1", 90);
    await measure(H200, "build-1", 40);
    const cache = { phase: "Ready", reason: "Downloaded", message: "" } as const;
    const claim = { claimName: "metalbridge-model-cache", folder: "qwen", file: "qwen.gguf" };
    await bench.markReady(NS, "qwen", { ...resolved, cache: { ...cache, ...claim } });
    await measured({ [L40S]: 90, [H200]: 40 });

    await serve("first");
    await prefers("first", /^prefers: l40s-[12] \(0\.\d\d: 90 of 90 tokens\/s \(measured\)/);
    expect((await nodesOf("first"))[0]).toMatch(/^l40s-/);

    await measure(L40S, "build-2", 20);
    await measure(H200, "build-2", 80);
    await bench.restartController(undefined, { engineImages: "llamacpp=registry.example/llama:build-2" });
    await measured({ [L40S]: 20, [H200]: 80 });
    await serve("second");
    await prefers("second", /^prefers: h200-1 \(0\.\d\d: 80 of 80 tokens\/s \(measured\)/);
    expect(await nodesOf("second")).toEqual(["h200-1"]);
  });
});
