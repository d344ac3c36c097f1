import { expect, test } from "vitest";
import { inferenceServiceSchema, inferenceServiceSpecSchema } from "../api/inference-service/index.ts";
import { ENGINES, engineDescription } from "../engines/registry.ts";
import { argumentsAsSettings, schemaOfSetting } from "./arguments.ts";
import { effectiveSpec } from "./effective-spec.ts";

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
  // Values that only the other field for them takes.
  ["llamacpp", ["-ctk", "bf16", "-ctv", "q8_0"], { cacheTypeCustomK: "bf16", cacheTypeV: "q8_0" }],
  ["llamacpp", ["-ctk", "bf16", "-ctk", "q8_0"], { cacheTypeK: "q8_0" }],
  ["llamacpp", ["--spec-type", "ngram-mod"], { speculativeDecoding: { type: "ngram-mod" } }],
  ["llamacpp", ["--spec-type", "draft-mtp"], { speculativeDecoding: { type: "mtp" } }],
  ["omlx", ["--max-concurrent-requests", "8"], { parallelSlots: 8 }],
  ["vllm", ["--max-num-seqs=16"], { parallelSlots: 16 }],
  ["vllm", ["--max-num-seqs", "16", "--max-num-seqs", "32"], { parallelSlots: 32 }],
  ["vllm", ["--kv-cache-dtype", "fp8_e5m2"], { vllmConfig: { kvCacheDtype: "fp8_e5m2" } }],
  ["vllm", ["--kv-cache-dtype=fp8"], { vllmConfig: { kvCacheCustomDtype: "fp8" } }],
  ["vllm", ["--kv-cache-dtype", "auto"], { vllmConfig: {} }],
  [
    "vllm",
    ["--kv_cache_dtype", "fp8_e4m3"],
    { vllmConfig: { kvCacheDtype: "fp8_e4m3", dtype: "float16" } },
    { vllmConfig: { dtype: "float16" } },
  ],
  [
    "vllm",
    ["--no-enable-prefix-caching", "--enable-expert-parallel", "-q", "awq"],
    { vllmConfig: { enablePrefixCaching: false, enableExpertParallel: true, quantization: "awq" } },
  ],
  [
    "sglang",
    ["--trust-remote-code", "--kv-cache-dtype", "fp8_e5m2", "--max-running-requests", "16", "--dp", "2"],
    {
      sglangConfig: { trustRemoteCode: true, kvCacheDtype: "fp8_e5m2", maxRunningRequests: 16 },
      extraArgs: ["--dp", "2"],
    },
  ],
  ["sglang", ["--chat-template", "chatml"], { sglangConfig: { chatTemplate: "chatml" } }],
  ["tgi", ["--max-batch-size", "16"], { parallelSlots: 16 }],
  ["tensorrt-llm", ["--max_batch_size", "16"], { parallelSlots: 16 }],
  ["personaplex", ["--quantize-4bit"], { personaPlexConfig: { quantize4Bit: true } }],
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

test.each<[Runtime, object, string[]]>([
  // The slots would divide the context that a request may use.
  ["vllm", { contextSize: 32_768 }, ["--max-num-seqs", "16"]],
  ["tgi", { contextSize: 32_768 }, ["--max-batch-size=16"]],
  ["tensorrt-llm", { contextSize: 32_768 }, ["--max_batch_size", "16"]],
  ["sglang", { chatTemplate: "{{ x }}" }, ["--chat-template", "chatml"]],
])("%s with %j keeps %j", (runtime, given, extraArgs) => {
  const kept = spec({ ...given, extraArgs });
  expect(argumentsAsSettings(kept, runtime)).toEqual({ spec: kept, notes: [] });
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
  ["vllm", ["--max-num-seqs", "256", "--max-model-len=", "--kv-cache-dtype", ""]],
  ["tgi", ["--max-concurrent-requests", "8"]],
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
  ["llamacpp", {}, ["--ctx-size="], "--ctx-size= has no value that spec.contextSize takes"],
  ["llamacpp", {}, ["-c", ""], "-c  has no value that spec.contextSize takes"],
  ["llamacpp", {}, ["--flash-attn="], "--flash-attn= has no value that spec.flashAttention takes"],
  ["llamacpp", {}, ["-fa", ""], "-fa  has no value that spec.flashAttention takes"],
  ["llamacpp", {}, ["--jinja="], "--jinja= has no value that spec.jinja takes"],
  ["llamacpp", {}, ["--jinja=false"], "--jinja=false has no value that spec.jinja takes"],
  ["llamacpp", {}, ["--override-kv="], "--override-kv= has no value that spec.metadataOverrides takes"],
  [
    "llamacpp",
    {},
    Array.from({ length: 65 }, () => ["--override-kv", "a=int:1"]).flat(),
    "has more entries than spec.metadataOverrides takes",
  ],
  [
    "llamacpp",
    { cacheTypeK: "q8_0" },
    ["-ctk", "bf16"],
    'extraArgs: -ctk bf16 contradicts spec.cacheTypeK, which is "q8_0": remove one of the two',
  ],
  [
    "llamacpp",
    { cacheTypeCustomK: "bf16" },
    ["-ctk", "q8_0"],
    'contradicts spec.cacheTypeCustomK, which is "bf16"',
  ],
  [
    "vllm",
    { vllmConfig: { kvCacheDtype: "fp8_e5m2" } },
    ["--kv-cache-dtype", "fp8_e4m3"],
    'contradicts spec.vllmConfig.kvCacheDtype, which is "fp8_e5m2"',
  ],
  ["vllm", { parallelSlots: 8 }, ["--max-num-seqs", "16"], "contradicts spec.parallelSlots, which is 8"],
  [
    "vllm",
    { parallelSlots: 8, contextSize: 8192 },
    ["--max-num-seqs", "16"],
    "contradicts spec.parallelSlots, which is 8",
  ],
  [
    "llamacpp",
    {},
    ["--rope-scaling", "yarn", "--rope-scale", "0"],
    "ropeScaling.factor must be greater than 0",
  ],
  [
    "llamacpp",
    { ropeScaling: { type: "linear" } },
    ["--yarn-orig-ctx", "4096"],
    "extraArgs: --yarn-orig-ctx 4096: ropeScaling.originalContext goes only with type yarn or longrope",
  ],
  [
    "llamacpp",
    { mode: "embedding" },
    ["--spec-type", "ngram-mod"],
    "spec.speculativeDecoding needs spec.mode chat",
  ],
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

test("settings in inherited arguments are listed by their paths, without those of the service and defaults", () => {
  const args = ["-c", "4096", "-fa", "auto", "--rope-scaling", "yarn", "-np", "2", "-ub", "64"];
  const inherited = [{ origin: "args of BackendRuntime mine", count: 6 }];
  const given = spec({ contextSize: 8192, extraArgs: args });
  const { inheritedSettings } = argumentsAsSettings(given, "llamacpp", inherited);
  expect(inheritedSettings).toEqual({ "ropeScaling.type": "yarn" });
  const { status } = inferenceServiceSchema.parse({
    metadata: { name: "chat" },
    spec: { modelRef: "tiny" },
    status: {
      inheritedSettings: { "ropeScaling.type": "yarn", "ropeScaling.factor": "2", contextSize: 512 },
    },
  });
  const effective = effectiveSpec({ spec: spec({ extraArgs: ["-c", "1024"] }), status }, "llamacpp");
  expect(effective).toEqual(spec({ contextSize: 1024, ropeScaling: { type: "yarn", factor: "2" } }));
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
