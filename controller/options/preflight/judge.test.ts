import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { readCatalog } from "../../../fitness/catalog/record.ts";
import { createFitness } from "../../../fitness/fitness.ts";
import { backendRuntimeSchema } from "../../../src/api/backend-runtime.ts";
import { hostSchema } from "../../../src/api/host.ts";
import { inferenceServiceSchema } from "../../../src/api/inference-service/index.ts";
import { modelSchema } from "../../../src/api/model.ts";
import type { Node } from "../../../src/kube/workload-objects.ts";
import { type PreflightInput, preflightService } from "./judge.ts";

const GIB = 1024 ** 3;
const { records } = readCatalog(
  readFileSync(new URL("../../../catalog/models.jsonl", import.meta.url), "utf8"),
);
const fitness = createFitness(records);
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
/** Status null: nothing is read yet. */
const model = (accelerator = "metal", status: object | null = readStatus) =>
  modelSchema.parse({
    metadata: { name: "qwen", namespace: "team" },
    spec: { source: SOURCE, hardware: { accelerator } },
    ...(status === null ? {} : { status }),
  });
const readStatus = {
  phase: "Ready",
  format: "gguf",
  gguf: GGUF,
  sizeBytes: 34.8 * 1e9,
  weightsBytes: Math.round(34.8e9),
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
const node = (
  name: string,
  memory: string,
  gpu?: { count: number; mib?: number },
  labels: Readonly<Record<string, string>> = {},
) => {
  const object: Node = {
    metadata: {
      name,
      labels: { ...labels, ...(gpu?.mib === undefined ? {} : { "nvidia.com/gpu.memory": String(gpu.mib) }) },
    },
    status: {
      capacity: { memory, cpu: "8" },
      allocatable: { memory, ...(gpu === undefined ? {} : { "nvidia.com/gpu": String(gpu.count) }) },
    },
  };
  return { node: object, read: () => fitness.readNode(object) };
};
const judge = (input: Partial<PreflightInput>) =>
  preflightService({
    service: service(),
    model: model(),
    hosts: [],
    nodes: [],
    fitness,
    hasFixedNodes: true,
    ...input,
  });

test("the message names the nearest machine, and what of the model fits on it", () => {
  const verdict = judge({ hosts: [host("mac-1", 16), host("mac-3", 32)] });
  expect(verdict).toMatchObject({ at: "nowhere" });
  const { message = "" } = verdict as { message?: string };
  expect(message).toMatch(
    /^needs 4\d(\.\d)? GiB, but the closest machine, mac-3, offers 24 GiB; with Q\w+ and a context of \d+ it needs [\d.]+ GiB$/,
  );
});

test("a service whose quantization no node runs is refused with the GPUs that do, unless a node may be added", () => {
  const compute = (major: string, minor: string) => ({
    "nvidia.com/gpu.product": "GPU",
    "nvidia.com/gpu.compute.major": major,
    "nvidia.com/gpu.compute.minor": minor,
  });
  const old = node("v100", "64Gi", { count: 1, mib: 81_920 }, compute("7", "0"));
  const quantized = { phase: "Ready", format: "safetensors", quantization: "awq-4bit", weightsBytes: GIB };
  const awq = modelSchema.parse({
    metadata: { name: "qwen", namespace: "team" },
    spec: { source: "hf://org/awq", format: "safetensors", hardware: { accelerator: "cuda" } },
    status: quantized,
  });
  const message =
    "has a quantization that no machine runs: v100: GPU sm_70 is older than compute capability 7.5, which AWQ needs: Turing (T4) or later";
  expect(judge({ model: awq, nodes: [old] })).toMatchObject({
    at: "nowhere",
    mayGrow: false,
    message: expect.stringContaining(message),
  });
  expect(judge({ model: awq, nodes: [old], hasFixedNodes: false })).toMatchObject({ mayGrow: true });
});

test("a machine that is unreachable, drained or full still counts, because that is temporary", () => {
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
  ["the service has no replicas", { service: service({ replicas: 0 }), hosts: [host("mac-1", 16)] }],
  ["no label says what the GPUs have", { model: model("cuda"), nodes: [node("gpu", "64Gi", { count: 1 })] }],
])("%s: nothing is refused", (_, input) => {
  expect(judge(input)).toMatchObject({ at: "unknown" });
});

test("the catalog is used while the header is not read", () => {
  const unread = { model: model("metal", null), hosts: [host("mac-1", 16)] };
  expect(judge(unread)).toMatchObject({ at: "nowhere", message: expect.stringMatching(/^needs [34]\d/) });
  expect(judge({ ...unread, hosts: [host("big", 128)] })).toEqual({ at: "fits", on: "big" });
});

test("the context in an argument counts for a Model that is not read yet", () => {
  const unread = { model: model("metal", null), hosts: [host("mac-1", 52)] };
  expect(judge({ ...unread, service: service({ contextSize: 4096 }) })).toMatchObject({ at: "fits" });
  const extraArgs = ["-c", "32768"];
  const own = service({ contextSize: undefined, extraArgs });
  expect(judge({ ...unread, service: own })).toMatchObject({ at: "nowhere" });
  const { spec } = backendRuntimeSchema.parse({
    metadata: { name: "mine" },
    spec: { engine: "llamacpp", recommendedConfigs: [{ name: "default", args: extraArgs }] },
  });
  const named = service({ contextSize: undefined, backendRuntime: { name: "mine" } });
  expect(judge({ ...unread, service: named, backend: { name: "mine", spec } })).toMatchObject({
    at: "nowhere",
  });
});

test("a Model that failed is refused as it was before it failed", () => {
  const failed = { phase: "Failed", reason: "SourceUnauthorized", message: "401" } as const;
  const unread = { model: { ...model("metal", null), status: failed }, hosts: [host("mac-1", 16)] };
  expect(judge(unread)).toMatchObject({ at: "nowhere", message: expect.stringMatching(/^needs [34]\d/) });
});

test("each pod takes the GPUs that it requests, and nodes without GPUs do not count", () => {
  const nodes = [node("plain", "512Gi"), node("gpu", "512Gi", { count: 8, mib: 24_576 })];
  expect(judge({ model: model("cuda"), nodes })).toMatchObject({
    at: "nowhere",
    message: expect.stringContaining("closest machine, gpu, offers 21.6 GiB; with Q"),
  });
  const two = service({ resources: { gpu: 2 } });
  expect(judge({ model: model("cuda"), service: two, nodes })).toEqual({ at: "fits", on: "gpu" });
  const large = { hosts: [host("mac-1", 512)], nodes: [node("small", "8Gi")] };
  expect(judge({ model: model("cpu"), ...large }), "although a host has room").toMatchObject({
    at: "nowhere",
    message: expect.stringMatching(
      /; the service runs in pods on Linux nodes, because the accelerator of Model qwen is cpu$/,
    ),
  });
  const onHosts = service({ placement: { on: "Hosts" } });
  expect(judge({ model: model("cpu"), service: onHosts, ...large })).toEqual({ at: "fits", on: "mac-1" });
  expect(judge({ model: model("cpu"), nodes })).toEqual({ at: "fits", on: "plain" });
});

test("with placement.on Auto, either side is enough", () => {
  const auto = service({ placement: { on: "Auto" } });
  const hosts = [host("mac-1", 16)];
  expect(judge({ service: auto, hosts, nodes: [node("plain", "512Gi")] })).toMatchObject({ at: "fits" });
  expect(judge({ service: auto, hosts, nodes: [node("small", "8Gi")] })).toMatchObject({ at: "nowhere" });
});

describe("flavors", () => {
  const GPU = "nvidia.com/gpu";
  const small = { name: "small", nodeSelector: { size: "small" }, limits: { [GPU]: 1 } };
  const pair = { name: "pair", nodeSelector: { size: "small" }, limits: { [GPU]: 2 } };
  const mac = { name: "mac", hostSelector: { matchLabels: { room: "1" } } };
  const flavored = (...flavors: object[]) =>
    modelSchema.parse({
      metadata: { name: "qwen", namespace: "team" },
      spec: { source: SOURCE, flavors },
      status: readStatus,
    });
  const nodes = [
    node("plain", "512Gi"),
    node("gpu", "512Gi", { count: 8, mib: 24_576 }, { size: "small" }),
    node("other", "512Gi", { count: 8, mib: 98_304 }, { size: "large" }),
  ];

  test("GPUs that only a flavor names are judged on the nodes that it allows", () => {
    expect(judge({ model: flavored(small), nodes })).toMatchObject({
      at: "nowhere",
      message: expect.stringMatching(/closest machine, gpu, offers 21\.6 GiB/),
    });
  });

  test("the best of the flavors that the service may use counts", () => {
    expect(judge({ model: flavored(small, pair), nodes })).toEqual({ at: "fits", on: "gpu" });
    expect(
      judge({ model: flavored(small, pair), nodes, service: service({ flavors: ["small"] }) }),
    ).toMatchObject({
      at: "nowhere",
    });
    const two = service({ resources: { gpu: 1 } });
    expect(judge({ model: flavored(small, pair), nodes, service: two })).toMatchObject({ at: "nowhere" });
  });

  test("hosts count that the flavor selects", () => {
    const room = (name: string, number: string) => {
      const one = host(name, 128);
      return { ...one, metadata: { ...one.metadata, labels: { room: number } } };
    };
    expect(judge({ model: flavored(mac, small), nodes, hosts: [room("big", "1")] })).toEqual({
      at: "fits",
      on: "big",
    });
    expect(judge({ model: flavored(mac, small), nodes, hosts: [room("big", "2")] })).toMatchObject({
      at: "nowhere",
    });
  });

  test("devices that kube-scheduler allocates refuse nothing", () => {
    const devices = { name: "devices", deviceClass: "gpu.example.com" };
    expect(judge({ model: flavored(small, devices), nodes })).toEqual({
      at: "unknown",
      why: "flavor devices: kube-scheduler allocates devices of gpu.example.com",
    });
  });

  test("a flavor that no machine matches refuses nothing", () => {
    const none = { ...small, nodeSelector: { size: "none" } };
    expect(judge({ model: flavored(none), nodes })).toMatchObject({ at: "unknown" });
  });
});

/** A Model of GPUs, and what preflight says of it on one GPU of so many GiB. */
const onGpu = (gib: number, { spec = {}, status = readStatus, on = {}, ...more }: OnGpu = {}) => {
  const source = "hf://bartowski/Qwen2.5-32B-Instruct-GGUF";
  const accelerator = { hardware: { accelerator: "cuda" } };
  const metadata = { name: "qwen", namespace: "team" };
  const read = status === null ? {} : { status };
  const parsed = modelSchema.parse({ metadata, spec: { source, ...accelerator, ...spec }, ...read });
  const nodes = [node("gpu", "512Gi", { count: 8, mib: gib * 1024 })];
  return judge({ model: parsed, service: service(on), nodes, ...more });
};
interface OnGpu extends Partial<PreflightInput> {
  readonly spec?: object;
  /** null: nothing is read yet. */
  readonly status?: object | null;
  readonly on?: object;
}

test.each([
  ["the experts are in host memory", 24, { moeCPUOffload: true }, "fits"],
  ["the experts of all layers are in host memory", 24, { moeCPULayers: 64 }, "fits"],
  ["half of the layers are", 24, { gpuLayers: 32 }, "fits"],
  ["a few layers are", 24, { gpuLayers: 60 }, "nowhere"],
  ["its KV cache is", 40, { noKvOffload: true }, "fits"],
  ["all is on the GPU", 40, {}, "nowhere"],
  ["an unknown part is", 24, { tensorOverrides: ["exps=CPU"] }, "unknown"],
  ["an unknown part is", 24, { extraArgs: ["-ot", "exps=CPU"] }, "unknown"],
])("GPU memory: where %s, a GPU of %i GiB with %j: %s", (_, gib, on, at) => {
  expect(onGpu(gib, { on })).toMatchObject({ at });
});

test("GPU memory: what stays in host memory is not known while the header is unread", () => {
  const status = null;
  const spec = { quantization: "Q8_0" };
  expect(onGpu(24, { spec, status })).toMatchObject({ at: "nowhere" });
  expect(onGpu(24, { spec, status, on: { moeCPUOffload: true } })).toMatchObject({ at: "unknown" });
  const gpu = { layers: 8 };
  const layered = { ...spec, hardware: { accelerator: "cuda", gpu } };
  expect(onGpu(24, { spec: layered, status })).toMatchObject({ at: "unknown" });
  expect(onGpu(24, { spec: { hardware: { accelerator: "cuda", gpu } } })).toMatchObject({ at: "fits" });
});

const BF16 = "hf://Qwen/Qwen2.5-32B-Instruct";
const AWQ = "hf://Qwen/Qwen2.5-32B-Instruct-AWQ";
const ready = (sizeBytes: number) => ({ phase: "Ready", format: "safetensors", sizeBytes });
const small = { contextSize: 4096 };
const offloaded = { ...small, vllmConfig: { cpuOffloadGB: 40 } };
test.each([
  ["its size", 48, { source: BF16 }, ready(65.5e9), small, "nowhere"],
  ["its size", 96, { source: BF16 }, ready(65.5e9), small, "fits"],
  ["its size, whatever the name says", 24, { source: BF16 }, ready(17e9), small, "fits"],
  ["16 bits, which is a guess", 48, { source: BF16 }, null, small, "unknown"],
  ["16 bits", 96, { source: BF16 }, null, small, "fits"],
  ["its name", 24, { source: AWQ }, null, small, "fits"],
  ["its name", 12, { source: AWQ }, null, small, "nowhere"],
  ["what the Model says", 24, { source: BF16, quantization: "fp8" }, null, small, "nowhere"],
  ["settings that load less of it", 48, { source: BF16 }, ready(65.5e9), offloaded, "unknown"],
  ["4 bits that it was trained in", 24, { source: "hf://openai/gpt-oss-20b" }, null, small, "fits"],
  ["4 bits that it was trained in", 12, { source: "hf://openai/gpt-oss-20b" }, null, small, "nowhere"],
])("safetensors are judged by %s: %i GiB, %j", (_, gib, spec, status, on, at) => {
  expect(onGpu(gib, { spec: { format: "safetensors", ...spec }, status, on })).toMatchObject({ at });
});

test.each([
  ["the Model", { quantization: "Q8_0" }, "nowhere"],
  ["its files", { files: ["Qwen2.5-32B-Instruct-Q8_0.gguf"] }, "nowhere"],
  ["an unknown name", { quantization: "UD-Q4_K_XL" }, "unknown"],
  ["nothing", {}, "unknown"],
])("while the header is unread, the quantization is what %s says", (_, spec, at) => {
  expect(onGpu(24, { spec, status: null })).toMatchObject({ at });
  const source = "hf://bartowski/Qwen2.5-32B-Instruct-GGUF";
  const unread = modelSchema.parse({ metadata: { name: "qwen" }, spec: { source, ...spec } });
  expect(judge({ model: unread, hosts: [host("mac-1", 16)] })).toMatchObject({ at });
});

test("pods hold their draft model and adapters too", () => {
  const draftModel = model("cuda");
  const draftModelRef = "draft";
  const on = { contextSize: 4096, speculativeDecoding: { type: "draft", draftModelRef } };
  expect(onGpu(48, { on: { contextSize: 4096 } })).toMatchObject({ at: "fits" });
  expect(onGpu(48, { on, draftModel })).toMatchObject({ at: "nowhere" });
  expect(onGpu(96, { on, draftModel, loraModels: [undefined] })).toMatchObject({ at: "fits" });
});

test("adapters are on the GPU with the layers that are there", () => {
  const loraModels = [
    modelSchema.parse({
      metadata: { name: "style", namespace: "team" },
      spec: { source: "hf://org/style/style.gguf" },
      status: { phase: "Ready", format: "gguf", sizeBytes: 20e9 },
    }),
  ];
  const on = { contextSize: 4096, loraAdapters: [{ modelRef: "style" }] };
  expect(onGpu(48, { on, loraModels })).toMatchObject({ at: "nowhere" });
  expect(onGpu(96, { on, loraModels })).toMatchObject({ at: "fits" });
  expect(onGpu(48, { on: { ...on, gpuLayers: 32 }, loraModels })).toMatchObject({ at: "fits" });
});

test("on GPUs a program of runtime generic counts with its whole margin", () => {
  const on = { runtime: "generic", image: "ghcr.io/org/program:1" };
  expect(onGpu(40, { on })).toMatchObject({
    at: "nowhere",
    message: expect.stringContaining("needs 39.1 GiB"),
  });
  expect(onGpu(48, { on })).toMatchObject({ at: "fits" });
});

test("while the header is unread, hosts count that the service may run on, and that have its runtime", () => {
  const big = host("big", 128);
  const unread = (placement: object, more: object = {}) =>
    judge({
      model: model("metal", null),
      hosts: [host("mac-1", 16), big],
      service: service({ placement, ...more }),
    });
  expect(unread({})).toEqual({ at: "fits", on: "big" });
  expect(unread({ hosts: ["big"] }, { runtime: "llamacpp" })).toEqual({ at: "fits", on: "big" });
  expect(unread({ hosts: ["mac-1"] })).toMatchObject({ at: "nowhere" });
  expect(unread({ hostSelector: { matchLabels: { room: "1" } } })).toMatchObject({ at: "unknown" });
  expect(unread({}, { runtime: "ollama" })).toMatchObject({ at: "unknown" });
});

test("a service that fits no current node may fit a new one, unless nodes are fixed or only hosts are allowed", () => {
  const nodes = [node("small", "8Gi")];
  const inPods = { model: model("cpu"), nodes };
  expect(judge(inPods)).toMatchObject({ at: "nowhere", mayGrow: false });
  expect(judge({ ...inPods, hasFixedNodes: false })).toMatchObject({ at: "nowhere", mayGrow: true });
  const hosts = [host("mac-1", 16)];
  const either = service({ placement: { on: "Auto" } });
  expect(judge({ service: either, hosts, nodes, hasFixedNodes: false })).toMatchObject({ mayGrow: true });
  expect(judge({ hosts, nodes, hasFixedNodes: false })).toMatchObject({ at: "nowhere", mayGrow: false });
});

test("without fitness hosts are judged by their capacity alone, and nodes are not", () => {
  const without = { fitness: undefined, nodes: undefined };
  const hosts = [host("mac-1", 16)];
  expect(judge({ ...without, hosts })).toMatchObject({
    at: "nowhere",
    message: expect.stringMatching(/^needs .* mac-1, offers 12 GiB$/),
  });
  expect(judge({ ...without, hosts: [host("big", 128)] })).toEqual({ at: "fits", on: "big" });
  expect(judge({ ...without, hosts, model: model("metal", null) })).toMatchObject({ at: "unknown" });
  const off = { at: "unknown", why: "nodes: fitness scores are off" };
  expect(judge({ ...without, model: model("cpu") })).toEqual(off);
  expect(judge({ ...without, hosts, service: service({ placement: { on: "Auto" } }) })).toEqual(off);
});

test("a verdict reads nodes up to the first that fits, and looks for settings that fit one machine only", () => {
  const calls = { fit: 0, smaller: 0 };
  const counting: PreflightInput["fitness"] = {
    ...fitness,
    forReplica: (need, measured) => {
      const scorer = fitness.forReplica(need, measured);
      return {
        fitOn: (place) => {
          calls.fit += 1;
          return scorer.fitOn(place);
        },
        smallerFitOn: (place) => {
          calls.smaller += 1;
          return scorer.smallerFitOn(place);
        },
      };
    },
  };
  const gpuNodes = (mib: number) =>
    Array.from({ length: 50 }, (_, index) => node(`gpu-${index}`, "512Gi", { count: 8, mib }));
  const large = judge({ model: model("cuda"), nodes: gpuNodes(98_304), fitness: counting });
  expect(large).toEqual({ at: "fits", on: "gpu-0" });
  expect(calls).toMatchObject({ fit: 1, smaller: 0 });
  const small = judge({ model: model("cuda"), nodes: gpuNodes(24_576), fitness: counting });
  expect(small).toMatchObject({ at: "nowhere" });
  expect(calls).toMatchObject({ fit: 51, smaller: 1 });
});
