import { expect, test } from "vitest";
import type { BenchmarkResult } from "../../src/api/benchmark.ts";
import { hostSchema } from "../../src/api/host.ts";
import { inferenceServiceSpecSchema } from "../../src/api/inference-service/index.ts";
import { type Model, modelSchema } from "../../src/api/model.ts";
import type { NodeReportRead } from "../../src/api/node-report.ts";
import { speedsByClass, subjectOf } from "../../src/capacity/benchmark/subject.ts";
import { benchmarkKey } from "../../src/capacity/benchmark/table.ts";
import { devicesOfNode } from "../../src/capacity/devices/node.ts";
import { fitOfService } from "../../src/capacity/fit/service-fit.ts";
import { DEFAULT_SCORE_WEIGHTS } from "../../src/capacity/score.ts";
import type { Node } from "../../src/kube/workload-objects.ts";
import { explainMachines, renderExplained } from "./explain.ts";

const GIB = 1024 ** 3;
const measured = { runtime: "vllm", build: "v1", measuredAt: "2026-03-01T12:00:00Z", tokensPerSecond: 120 };
const model = modelSchema.parse({
  metadata: { name: "llama", namespace: "default" },
  spec: { source: "hf://org/model/model.gguf" },
  status: {
    phase: "Ready",
    sha256: "a".repeat(64),
    format: "gguf",
    sizeBytes: 4 * GIB,
    weightsBytes: 4 * GIB,
    gguf: {
      architecture: "llama",
      contextLength: 4096,
      embeddingSize: 4096,
      layerCount: 32,
      headCount: 32,
      headCountKV: 8,
      keyLength: 128,
      valueLength: 128,
    },
    benchmarks: [{ ...measured, deviceClass: "nvidia-l40s" }],
  },
}) as Model;
const service = {
  metadata: { name: "llama", namespace: "default" },
  spec: inferenceServiceSpecSchema.parse({ modelRef: "llama" }),
};

function host(name: string, chip: string | undefined, cost?: number, tokensPerSecond?: number) {
  const models = tokensPerSecond === undefined ? [] : [{ source: model.spec.source, tokensPerSecond }];
  const conditions = ["Ready", "Reachable"].map((type) => ({
    ...{ type, status: "True", reason: "AsExpected", message: "" },
    lastTransitionTime: "2026-03-01T12:00:00Z",
  }));
  return hostSchema.parse({
    metadata: { name },
    spec: { cost },
    status: {
      conditions,
      models,
      info: { os: "darwin", chip, gpuCores: 10 },
      runtimes: [{ name: "llamacpp" }],
      memory: { totalBytes: 64 * GIB, gpuBudgetBytes: 48 * GIB },
    },
  });
}

test("each machine has its speed with its basis, load, cost and score: hosts as placement scores them, then nodes", () => {
  const subject = subjectOf(model, service, { runtime: "llamacpp" });
  const key = benchmarkKey(subject ?? expect.fail(), "apple-m4-10");
  const result = { generation: { median: 40 }, deviceClass: "apple-m4-10" } as unknown as BenchmarkResult;
  const benchmarks = { results: new Map([[key, result]]), dropped: [] };
  expect(speedsByClass(benchmarks, subject)).toEqual({ "apple-m4-10": 40 });
  const hosts = [host("live", "Apple M1", 1, 20), host("new", undefined, 4), host("m4", "Apple M4", 2)];
  const report = { cpu: {}, gpus: [], gpuUtilization: 0.5, runtimes: [], models: [], leftOut: [] };
  const reports: Readonly<Record<string, NodeReportRead>> = { gpu: { at: "known", report } };
  const nodes = [
    {
      name: "gpu",
      annotations: { "metalbridge.dev/cost": "9" },
      labels: { "nvidia.com/gfd.timestamp": "1789984911", "nvidia.com/gpu.product": "NVIDIA-L40S" },
    },
    { name: "edited", annotations: { "metalbridge.dev/cost": "much" }, labels: {} },
    { name: "retired", annotations: {}, labels: { old: "true" } },
  ].map((metadata) => {
    const node = { metadata: { uid: metadata.name, ...metadata } } as unknown as Node;
    return { node, devices: devicesOfNode(node, [], undefined), report: reports[metadata.name] };
  });
  const fit = fitOfService({ service, model, hosts, replicas: [], services: [], benchmarks }, 0);
  expect(fit.report.choice).toMatchObject({
    host: "m4",
    why: expect.stringContaining("score 0.65: 40 of 40 tokens/s (measured), 0% in use, cost 2 of 4"),
  });
  const terms = [{ matchExpressions: [{ key: "old", operator: "DoesNotExist" }] }];
  const affinity = {
    nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } },
  };
  const onNewNodes = { ...service, spec: { ...service.spec, affinity } };
  const input = {
    fit,
    model,
    service: onNewNodes,
    hosts,
    nodes,
    records: [],
    weights: DEFAULT_SCORE_WEIGHTS,
  };
  expect(renderExplained(explainMachines(input)).join("\n")).toMatchInlineSnapshot(`
    "MACHINE  KIND  CLASS        TOKENS/S        IN USE   COST  SCORE  WHY
    m4       Host  apple-m4-10  40 (measured)   0%       2     0.65   40 of 40 tokens/s (measured), 0% in use, cost 2 of 4
    live     Host  apple-m1-10  20 (live)       0%       1     0.32   20 of 40 tokens/s (live), 0% in use, cost 1 of 4
    new      Host  unknown      unknown         0%       4     0.25   speed unknown, 0% in use, cost 4 of 4
    gpu      Node  nvidia-l40s  120 (measured)  50%      9     0.50   120 of 120 tokens/s (measured), 50% in use, cost 9 of 9
    edited   Node  unknown      unknown         unknown  -     0.20   speed unknown, load unknown, cost unknown"
  `);
});
