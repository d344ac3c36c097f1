import { expect, test } from "vitest";
import { inferenceServiceSchema } from "../../api/inference-service/index.ts";
import { type Model, modelSchema } from "../../api/model.ts";
import { benchmarkPlanOf, speedsByClass, subjectOf, subjectsOnHosts } from "./subject.ts";
import { benchmarkKey, readBenchmarks } from "./table.ts";

const model: Model = modelSchema.parse({
  metadata: { name: "chat", namespace: "apps" },
  spec: { source: "hf://org/chat/chat.gguf" },
  status: { sha256: "c0ffee", cacheKey: "key" },
});
const llamacpp = { runtime: "llamacpp" } as const;

const settingsOf = (spec: object, engine: Parameters<typeof subjectOf>[2] = llamacpp) => {
  const metadata = { name: "chat", namespace: "apps" };
  const service = inferenceServiceSchema.parse({ metadata, spec: { modelRef: "chat", ...spec } });
  return subjectOf(model, service, engine)?.settings;
};

test("a model without a service is measured with the default settings", () => {
  expect(subjectOf(model, undefined, llamacpp)).toEqual({
    content: "c0ffee",
    runtime: "llamacpp",
    settings: {},
  });
});

test("settings that change the speed count if they differ from the default and the engine honors them", () => {
  expect(settingsOf({ cacheTypeK: "f16", batchSize: 2048, contextSize: 8192, replicas: 3 })).toEqual({});
  expect(settingsOf({ cacheTypeK: "q8_0", cacheTypeCustomV: "tq3", flashAttention: true })).toEqual({
    cacheTypeK: "q8_0",
    cacheTypeV: "tq3",
    flashAttention: "true",
  });
  expect(settingsOf({ cacheTypeK: "q8_0" }, { runtime: "omlx" })).toEqual({});
});

test("the image and the number of GPUs count in pods only", () => {
  const spec = { image: "registry.example/llama:1" };
  expect(settingsOf(spec)).toEqual({});
  expect(settingsOf(spec, { ...llamacpp, gpusPerPod: 1 })).toEqual(spec);
  expect(settingsOf({}, { ...llamacpp, gpusPerPod: 2 })).toEqual({ gpus: "2" });
  expect(settingsOf({}, { ...llamacpp, gpusPerPod: 0 })).toEqual({});
  const slice = { resources: { gpuSharing: { mode: "partitioned", profile: "1g.10gb" } } };
  expect(settingsOf(slice, { ...llamacpp, gpusPerPod: 1 })).toEqual({ gpuResource: "1g.10gb" });
  const vulkan = { ...model, spec: { ...model.spec, hardware: { accelerator: "vulkan" as const } } };
  expect(subjectOf(vulkan, undefined, { ...llamacpp, gpusPerPod: 1 })?.settings).toEqual({
    accelerator: "vulkan",
  });
  expect(subjectOf(vulkan, undefined, llamacpp)?.settings).toEqual({});
});

test("nothing is measured with tensors on other devices, and other arguments than those of settings leave the subject unchanged", () => {
  expect(settingsOf({ extraArgs: ["-ngl", "9"] })).toEqual({ gpuLayers: "9" });
  expect(settingsOf({ extraArgs: ["--rope-scaling", "none"] })).toEqual({});
  expect(settingsOf({ tensorOverrides: ["exps=CPU"] })).toBeUndefined();
  expect(settingsOf({ tensorOverrides: ["exps=CPU"] }, { runtime: "omlx" })).toEqual({});
  expect(settingsOf({ tensorOverrides: [] })).toEqual({});
});

test("nothing is measured for a service without generation, or before the source is resolved", () => {
  expect(settingsOf({ mode: "embedding" })).toBeUndefined();
  expect(subjectOf({ ...model, status: {} }, undefined, llamacpp)).toBeUndefined();
});

test("speeds are found by class", () => {
  const subject = subjectOf(model, undefined, llamacpp);
  if (subject === undefined) throw new Error("no subject");
  const entry = (deviceClass: string, median: number) => ({
    [benchmarkKey(subject, deviceClass)]: JSON.stringify({
      model: "hf://org/chat",
      deviceClass,
      machine: "mac-1",
      runtime: "llamacpp",
      build: "b9999",
      settings: {},
      measuredAt: "2026-11-26T10:00:00Z",
      tool: "llama-bench",
      generation: { median, spread: 0, samples: [median] },
    }),
  });
  const table = readBenchmarks({ data: { ...entry("apple-m4-max-40", 41), ...entry("apple-m2-10", 12) } });
  expect(speedsByClass(table, subject)).toEqual({ "apple-m4-max-40": 41, "apple-m2-10": 12 });
  expect(speedsByClass(table, { ...subject, content: "other" })).toEqual({});
  expect(speedsByClass(table, undefined)).toEqual({});
});

test("hosts measure the distinct settings of the services that run there, with a runtime that has a tool", () => {
  const service = (spec: object) =>
    inferenceServiceSchema.parse({
      metadata: { name: "chat", namespace: "apps" },
      spec: { modelRef: "chat", ...spec },
    });
  const settings = (...specs: readonly object[]) =>
    subjectsOnHosts(model, specs.map(service)).map((subject) => subject.settings);
  expect(settings()).toEqual([{}]);
  expect(settings({}, { contextSize: 8192 }, { gpuLayers: 0 })).toEqual([{}, { gpuLayers: "0" }]);
  expect(settings({ placement: { on: "Pods" } })).toEqual([]);
  expect(settings({ runtime: "ollama" }, { runtime: "vllm" })).toEqual([]);
  const onNodes: Model = { ...model, spec: { ...model.spec, hardware: { accelerator: "cuda" } } };
  expect(subjectsOnHosts(onNodes, [])).toEqual([]);
});

test("a plan has defaults, and its limit in seconds", () => {
  expect(benchmarkPlanOf(model)).toEqual({ warmups: 2, runs: 5, tokens: 128 });
  const benchmark = { enabled: true, runs: 3, minDuration: "1m30s" };
  expect(benchmarkPlanOf({ spec: { ...model.spec, benchmark } })).toMatchObject({ runs: 3, minSeconds: 90 });
});
