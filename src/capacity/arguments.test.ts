import { expect, test } from "vitest";
import { inferenceServiceSpecSchema } from "../api/inference-service/index.ts";
import { ENGINES, engineDescription } from "../engines/registry.ts";
import { argumentsAsSettings, schemaOfSetting } from "./arguments.ts";

type Runtime = (typeof ENGINES)[number]["runtime"];

function spec(fields: object) {
  const models = "modelRefs" in fields ? {} : { modelRef: "tiny" };
  return inferenceServiceSpecSchema.parse({ ...models, ...fields });
}

const withDraft = {
  modelRefs: [
    { name: "main", role: "main" },
    { name: "small", role: "draft" },
  ],
};

/** Arguments of the samples and templates of llmaz, and those that llama.cpp's documentation uses. */
const settings: readonly [Runtime, string[], object, object?][] = [
  ["llamacpp", ["-fa"], { flashAttention: true }],
  ["llamacpp", ["-fa", "--threads", "4"], { flashAttention: true, extraArgs: ["--threads", "4"] }],
  ["llamacpp", ["--flash-attn", "off"], { flashAttention: false }],
  ["llamacpp", ["--flash_attn", "on"], { flashAttention: true }],
  ["llamacpp", ["-c", "8192", "-np", "4"], { contextSize: 8192, parallelSlots: 4 }],
  ["llamacpp", ["--ctx-size=8192"], { contextSize: 8192 }],
  ["llamacpp", ["-ngl", "all"], { gpuLayers: -1 }],
  ["llamacpp", ["-ngl", "99"], { gpuLayers: 99 }],
  [
    "llamacpp",
    ["-nkvo", "--no-warmup", "-no-kvu", "--no-jinja"],
    { noKvOffload: true, noWarmup: true, kvUnified: false, jinja: false },
  ],
  ["llamacpp", ["-ctk", "q8_0", "-ub", "256"], { cacheTypeK: "q8_0", uBatchSize: 256 }],
  [
    "llamacpp",
    ["--override-kv", "a=int:1", "--override-kv", "b=int:2"],
    { metadataOverrides: ["a=int:1", "b=int:2"] },
  ],
  [
    "llamacpp",
    ["--rope-scaling", "yarn", "--rope-scale", "4"],
    { ropeScaling: { type: "yarn", factor: "4" } },
  ],
  ["llamacpp", ["--draft-max", "16"], { speculativeDecoding: { type: "draft", nDraftMax: 16 } }, withDraft],
  ["llamacpp", ["-c", "4096", "-c", "8192"], { contextSize: 8192 }],
  ["llamacpp", ["-c", "4096"], { contextSize: 4096 }, { contextSize: 4096 }],
  ["omlx", ["--max-concurrent-requests", "8"], { parallelSlots: 8 }],
  ["vllm", ["--max-model-len", "4096"], { vllmConfig: { maxModelLen: 4096, kvCacheDtype: "auto" } }],
  [
    "vllm",
    ["--max_model_len=4096", "-tp", "1"],
    { vllmConfig: { maxModelLen: 4096, kvCacheDtype: "auto" }, extraArgs: ["-tp", "1"] },
  ],
  [
    "sglang",
    ["--context-length", "4096", "--chunked-prefill-size", "-1"],
    { sglangConfig: { contextLength: 4096, chunkedPrefillSize: -1 } },
  ],
  ["tgi", ["--quantize", "awq"], { tgiConfig: { quantize: "awq" } }],
  ["tgi", ["--max-input-tokens", "512"], { tgiConfig: { maxInputLength: 512 } }],
];

test.each(settings)("%s: %j are settings", (runtime, extraArgs, expected, given = {}) => {
  const mapped = argumentsAsSettings(spec({ ...given, extraArgs }), runtime);
  expect(mapped.spec).toEqual(spec({ ...given, ...expected }));
});

test("a note names each argument, and one of the default leaves its setting out", () => {
  const { spec: mapped, notes } = argumentsAsSettings(
    spec({ extraArgs: ["-fa", "auto", "-c", "512"] }),
    "llamacpp",
  );
  expect(notes).toEqual([
    "extraArgs: -fa auto is the default without flashAttention",
    "extraArgs: -c 512 is set as contextSize",
  ]);
  expect(mapped).toEqual(spec({ contextSize: 512 }));
});

test.each<[Runtime, string[]]>([
  // An argument in the place of a value is a value.
  ["llamacpp", ["--grammar", "-fa"]],
  // What only Metalbridge sets is refused by the engine's own list.
  ["llamacpp", ["-m", "/x", "--host", "0.0.0.0", "--port", "1", "--api-key", "x"]],
  ["llamacpp", ["--chat-template-file", "/x", "--slot-save-path", "/x"]],
  // An engine without an allow-list gets what its setting does not take.
  ["vllm", ["--max-model-len", "4k", "--port", "1"]],
  ["tensorrt-llm", ["--max_seq_len", "512"]],
  ["generic", ["-c", "512"]],
])("%s: %j stay as they are", (runtime, extraArgs) => {
  const given = spec({ extraArgs });
  expect(argumentsAsSettings(given, runtime)).toEqual({ spec: given, notes: [] });
});

test.each<[Runtime, object, string[], string]>([
  [
    "llamacpp",
    { contextSize: 4096 },
    ["-c", "8192"],
    "-c 8192 contradicts spec.contextSize, which is 4096: remove one of the two",
  ],
  ["llamacpp", { flashAttention: false }, ["-fa"], "-fa contradicts spec.flashAttention, which is false"],
  [
    "llamacpp",
    { flashAttention: true },
    ["-fa", "auto"],
    "-fa auto contradicts spec.flashAttention, which is true",
  ],
  ["llamacpp", { jinja: true }, ["--no-jinja"], "--no-jinja contradicts spec.jinja, which is true"],
  [
    "llamacpp",
    { ...withDraft, speculativeDecoding: { type: "draft", nDraftMax: 8 } },
    ["--draft-max", "16"],
    "contradicts spec.speculativeDecoding.nDraftMax, which is 8",
  ],
  [
    "vllm",
    { vllmConfig: { dtype: "float16" } },
    ["--dtype", "bfloat16"],
    'contradicts spec.vllmConfig.dtype, which is "float16"',
  ],
  ["llamacpp", {}, ["--pooling", "mean"], "--pooling mean: spec.pooling needs spec.mode embedding"],
  ["llamacpp", { mode: "embedding" }, ["--cache-ram", "512"], "spec.promptCacheMiB must be 0 or absent"],
  ["llamacpp", { batchSize: 256 }, ["-ub", "512"], "spec.uBatchSize must not be larger than spec.batchSize"],
  ["llamacpp", { flashAttention: false }, ["-ctv", "q8_0"], "needs flash attention"],
  ["llamacpp", { chatTemplate: "{{ x }}" }, ["--no-jinja"], "spec.chatTemplate needs Jinja templates"],
  ["llamacpp", {}, ["-np", "64", "-c", "256"], "must leave at least 16 tokens for each"],
  ["llamacpp", { batchSize: 256 }, ["-ub", "512"], "spec.uBatchSize must not be larger"],
  ["llamacpp", { flashAttention: false }, ["-ctv", "q8_0"], "needs flash attention"],
  ["llamacpp", {}, ["-c", "0"], "-c 0 has no value that spec.contextSize takes"],
  ["llamacpp", {}, ["-c"], "-c has no value that spec.contextSize takes"],
  ["llamacpp", {}, ["-fa", "maybe"], "-fa maybe has no value that spec.flashAttention takes"],
  [
    "llamacpp",
    {},
    ["--draft-max", "16"],
    "--draft-max 16 is spec.speculativeDecoding.nDraftMax, which needs spec.speculativeDecoding.type",
  ],
  [
    "llamacpp",
    {},
    ["--rope-scale", "4"],
    "--rope-scale 4 is spec.ropeScaling.factor, which needs spec.ropeScaling.type",
  ],
  ["omlx", { parallelSlots: 2 }, ["--max-concurrent-requests", "8"], "contradicts spec.parallelSlots"],
])("%s with %j refuses %j", (runtime, given, extraArgs, says) => {
  expect(() => argumentsAsSettings(spec({ ...given, extraArgs }), runtime)).toThrow(says);
});

const INHERITED = [
  { origin: "args of BackendRuntime mine", count: 3 },
  { origin: "args of flavor a100", count: 2 },
];

test("arguments of a BackendRuntime and of a flavor yield to settings, and notes name the origin", () => {
  const extraArgs = ["-c", "4096", "-fa", "-ngl", "9", "--seed", "1", "-np", "2"];
  const { spec: mapped, notes } = argumentsAsSettings(
    spec({ contextSize: 8192, extraArgs }),
    "llamacpp",
    INHERITED,
  );
  const set = { contextSize: 8192, flashAttention: true, gpuLayers: 9, parallelSlots: 2 };
  expect(mapped).toEqual(spec({ ...set, extraArgs: ["--seed", "1"] }));
  expect(notes).toEqual([
    "args of BackendRuntime mine: -fa is set as flashAttention",
    "args of flavor a100: -ngl 9 is set as gpuLayers",
    "extraArgs: -np 2 is set as parallelSlots",
  ]);
});

test("an error names the origin of the argument", () => {
  const extraArgs = ["-c", "4096", "-fa", "-ngl", "x"];
  expect(() => argumentsAsSettings(spec({ extraArgs }), "llamacpp", INHERITED)).toThrow(
    "args of flavor a100: -ngl x has no value that spec.gpuLayers takes: remove it",
  );
  // The arguments of the service come last and count.
  const both = ["-c", "4096", "-fa", "-c", "1024", "-c", "512"];
  expect(argumentsAsSettings(spec({ extraArgs: both }), "llamacpp", INHERITED).spec.contextSize).toBe(512);
});

test.each(ENGINES.filter(({ arguments: known }) => known !== undefined))(
  "$runtime: every argument has a setting that exists and that the engine honors",
  ({ runtime }) => {
    const { arguments: known, host, pod } = engineDescription(runtime) ?? {};
    const honored = [...(host?.settings ?? []), ...(pod?.settings ?? [])];
    for (const { setting } of Object.values(known?.settings ?? {})) {
      expect(schemaOfSetting(setting), setting).toBeDefined();
      expect(honored).toContain(setting.split(".")[0]);
    }
  },
);
