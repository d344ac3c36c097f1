import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { hostSchema } from "../../src/api/host.ts";
import { inferenceServiceSchema } from "../../src/api/inference-service/index.ts";
import { modelSchema } from "../../src/api/model.ts";
import { createMatcher } from "../../src/fitness/catalog/match.ts";
import { readCatalog } from "../../src/fitness/catalog/record.ts";
import { readNode } from "../../src/fitness/node.ts";
import { type PreflightInput, preflight } from "./judge.ts";

const GIB = 1024 ** 3;
const { records } = readCatalog(readFileSync(new URL("../../catalog/models.jsonl", import.meta.url), "utf8"));
const match = createMatcher(records);
const SOURCE = "hf://bartowski/Qwen2.5-32B-Instruct-GGUF/Qwen2.5-32B-Instruct-Q8_0.gguf";
const GGUF = {
  architecture: "qwen2",
  quantization: "Q8_0",
  contextLength: 32_768,
  embeddingSize: 5120,
  layerCount: 64,
  headCount: 40,
  headCountKV: 8,
  keyLength: 128,
  valueLength: 128,
};
const service = (spec: object = {}) =>
  inferenceServiceSchema.parse({
    metadata: { name: "chat", namespace: "team" },
    spec: { modelRef: "qwen", contextSize: 32_768, ...spec },
  });
const model = (accelerator = "metal", status: object | undefined = readStatus) =>
  modelSchema.parse({
    metadata: { name: "qwen", namespace: "team" },
    spec: { source: SOURCE, hardware: { accelerator } },
    ...(status === undefined ? {} : { status }),
  });
const readStatus = {
  ...{ phase: "Ready", format: "gguf", gguf: GGUF },
  ...{ sizeBytes: 34.8 * 1e9, weightsBytes: Math.round(34.8e9) },
};
const host = (name: string, gib: number, more: object = {}) =>
  hostSchema.parse({
    metadata: { name },
    spec: { addresses: ["10.0.0.1"] },
    status: {
      info: { os: "darwin", chip: "Apple M4 Pro" },
      memory: { totalBytes: gib * GIB, gpuBudgetBytes: Math.floor(gib * 0.75) * GIB },
      runtimes: [{ name: "llamacpp" }],
      ...more,
    },
  });
const node = (name: string, memory: string, gpu?: { count: number; mib?: number }) =>
  readNode({
    metadata: {
      name,
      labels: gpu?.mib === undefined ? {} : { "nvidia.com/gpu.memory": String(gpu.mib) },
    },
    status: {
      capacity: { memory, cpu: "8" },
      allocatable: { memory, ...(gpu === undefined ? {} : { "nvidia.com/gpu": String(gpu.count) }) },
    },
  });
const judge = (input: Partial<PreflightInput>) =>
  preflight({ service: service(), model: model(), hosts: [], nodes: [], match, ...input });

test("names the nearest machine, and what of the model fits it", () => {
  const verdict = judge({ hosts: [host("mac-1", 16), host("mac-3", 32)] });
  expect(verdict).toMatchObject({ at: "nowhere" });
  const { message = "" } = verdict as { message?: string };
  expect(message).toMatch(
    /^needs 4\d(\.\d)? GiB, and the machine that comes nearest, mac-3, offers 24 GiB; with Q\w+ and a context of \d+ it needs [\d.]+ GiB$/,
  );
});

test("a machine that is away, drained or full still counts: that passes", () => {
  const away = {
    conditions: [
      {
        type: "Reachable",
        status: "False",
        reason: "X",
        message: "",
        lastTransitionTime: "2026-01-01T00:00:00Z",
      },
    ],
  };
  expect(judge({ hosts: [host("mac-1", 16), host("big", 128, away)] })).toEqual({ at: "fits", on: "big" });
});

test.each([
  ["no machine is known", {}],
  [
    "a host has not said what it has",
    { hosts: [host("mac-1", 16), hostSchema.parse({ metadata: { name: "new" }, spec: { addresses: [] } })] },
  ],
  ["the Model does not exist yet", { model: undefined, hosts: [host("mac-1", 16)] }],
  ["a host lacks the runtime", { hosts: [host("mac-1", 16), host("bare", 128, { runtimes: [] })] }],
  ["nothing is wanted", { service: service({ replicas: 0 }), hosts: [host("mac-1", 16)] }],
  ["no label says what the GPUs have", { model: model("cuda"), nodes: [node("gpu", "64Gi", { count: 1 })] }],
])("%s: nothing is refused", (_, input) => {
  expect(judge(input)).toMatchObject({ at: "unknown" });
});

test("a header that is not read yet: the catalogue stands in for it", () => {
  const unread = { model: model("metal", undefined), hosts: [host("mac-1", 16)] };
  expect(judge(unread)).toMatchObject({ at: "nowhere", message: expect.stringMatching(/^needs [34]\d/) });
  expect(judge({ ...unread, hosts: [host("big", 128)] })).toEqual({ at: "fits", on: "big" });
});

test("pods: each takes as many GPUs as it asks for, and nodes without any do not count", () => {
  const nodes = [node("plain", "512Gi"), node("gpu", "512Gi", { count: 8, mib: 24_576 })];
  expect(judge({ model: model("cuda"), nodes })).toMatchObject({
    at: "nowhere",
    message: expect.stringContaining("nearest, gpu, offers 21.6 GiB; with Q"),
  });
  const two = service({ resources: { gpu: 2 } });
  expect(judge({ model: model("cuda"), service: two, nodes })).toEqual({ at: "fits", on: "gpu" });
  expect(judge({ model: model("cpu"), nodes: [node("small", "8Gi")] })).toMatchObject({ at: "nowhere" });
  expect(judge({ model: model("cpu"), nodes })).toEqual({ at: "fits", on: "plain" });
});

test("with placement.on Auto, either side is enough", () => {
  const auto = service({ placement: { on: "Auto" } });
  const hosts = [host("mac-1", 16)];
  expect(judge({ service: auto, hosts, nodes: [node("plain", "512Gi")] })).toMatchObject({ at: "fits" });
  expect(judge({ service: auto, hosts, nodes: [node("small", "8Gi")] })).toMatchObject({ at: "nowhere" });
});
