/** Settings of an engine, which InferenceService.spec and resolved replicas share. */
import { z } from "zod";
import { programSchema } from "./fields/program.ts";
import { singleEngineFields } from "./fields/runtime-fields.ts";
import { int32, nonEmpty, totalLength } from "./fields/shared.ts";

export const modeSchema = z.enum(["chat", "embedding", "rerank"]);
export type Mode = z.output<typeof modeSchema>;

/** Default context of a slot, in tokens. */
export const DEFAULT_CONTEXT_PER_SLOT = 4096;
/** Default size of the prompt cache of a chat engine, in MiB. */
export const DEFAULT_PROMPT_CACHE_MIB = 1024;

const CACHE_TYPES = ["f16", "f32", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl"] as const;
const cacheType = z.enum(CACHE_TYPES);
const customCacheType = nonEmpty(32).regex(/^[A-Za-z0-9_.-]+$/);
const override = nonEmpty(1024);
const toggle = z.boolean();
const argument = z.string().max(4096);
/** Limited because every watcher of services and replicas caches them in memory. */
const EXTRA_ARGS_LENGTH_MAX = 32_768;
const OVERRIDES_LENGTH_MAX = 16_384;

const SPECULATIVE_TYPES = [
  "none",
  "disabled",
  "mtp",
  "draft",
  "draft-simple",
  "draft-eagle3",
  "draft-mtp",
  "draft-dflash",
  "draft-dspark",
  "ngram-simple",
  "ngram-map-k",
  "ngram-map-k4v",
  "ngram-mod",
  "ngram-cache",
] as const;

export const speculativeType = z
  .enum(SPECULATIVE_TYPES)
  .describe(
    "Source of the draft tokens: a draft model (draft*), the model's own prediction heads (mtp), or the preceding text (ngram-*).",
  );

export const speculativeTuning = {
  nDraftMax: int32(1, 1024)
    .describe(
      "Maximum number of tokens drafted in one step. Not supported by ngram-cache. Defaults to the engine's own value: 3 for draft models, 48 or 64 for ngram types.",
    )
    .optional(),
  pMin: z
    .number()
    .min(0)
    .max(1)
    .describe(
      "Minimum probability, from 0 to 1, at which a draft token is used. Draft models only. Defaults to the engine's own value.",
    )
    .optional(),
};

export const ropeScalingSchema = z.object({
  type: z.enum(["linear", "yarn", "longrope"]).describe("RoPE scaling method."),
  factor: z
    .string()
    .max(16)
    .regex(/^[0-9]+(\.[0-9]+)?$/)
    .describe(
      'Factor by which the context is extended, as a string: "4.0" extends 32768 trained tokens to 131072.',
    )
    .optional(),
  originalContext: int32(128, 2097152)
    .describe(
      "Trained context length in tokens, for yarn and longrope. Defaults to the length in the model file.",
    )
    .optional(),
});

/** Settings that InferenceService.spec and EngineSettings share. */
export const engineFields = {
  contextSize: int32(128, 2097152)
    .describe(
      "Total context of the engine in tokens, divided among parallelSlots: with 8192 tokens and 4 slots, a request can use 2048. Determines the size of the KV cache and of the memory claim. Defaults to 4096 per slot, or to the trained length if that is shorter.",
    )
    .optional(),
  parallelSlots: int32(1, 64)
    .describe("Maximum number of concurrent requests (slots), which share contextSize. Defaults to 1.")
    .optional(),
  kvUnified: toggle
    .describe(
      "If true, all slots share one KV cache, so a single request can use all of contextSize while the others are short. If false, each slot has an equal part. Defaults to false.",
    )
    .optional(),
  ropeScaling: ropeScalingSchema
    .describe(
      "RoPE scaling, which extends the context beyond the length that the model was trained for. Defaults to the settings in the model file.",
    )
    .optional(),
  flashAttention: toggle
    .describe(
      "Enables or disables flash attention, which a quantized cacheTypeV requires. If absent, the engine decides.",
    )
    .optional(),
  jinja: toggle
    .describe(
      "Enables the chat template of the model, which tool calls require. Defaults to the engine's own value, which is true in current llama-server.",
    )
    .optional(),
  chatTemplate: nonEmpty(65536)
    .describe("Jinja source of a chat template that replaces the one in the model file.")
    .optional(),
  pooling: z
    .enum(["mean", "cls", "last"])
    .describe(
      "Pooling of token vectors in mode embedding: their mean, the first (cls) or the last. Defaults to the type in the model file.",
    )
    .optional(),
  slotSaveRestore: toggle
    .describe(
      "If true, clients can save the KV cache of a slot to the host's disk and restore it (POST /slots/{id}?action=save or restore). The files are deleted with the replica; their number and size are not limited.",
    )
    .optional(),
  cacheTypeK: cacheType
    .describe(
      "Data type of the keys in the KV cache. q8_0 needs half as much memory as f16. Defaults to f16.",
    )
    .optional(),
  cacheTypeV: cacheType
    .describe(
      "Data type of the values in the KV cache. Quantized types require flash attention. Defaults to f16.",
    )
    .optional(),
  cacheTypeCustomK: customCacheType
    .describe(
      "Data type of the keys that is not listed for cacheTypeK. Overrides cacheTypeK. The engine must support it.",
    )
    .optional(),
  cacheTypeCustomV: customCacheType
    .describe(
      "Data type of the values that is not listed for cacheTypeV. Overrides cacheTypeV. The engine must support it.",
    )
    .optional(),
  batchSize: int32(1, 16384)
    .describe(
      "Maximum number of prompt tokens that are submitted in one step. Defaults to the engine's own value, 2048.",
    )
    .optional(),
  uBatchSize: int32(1, 16384)
    .describe(
      "Number of prompt tokens that are computed together (micro-batch), at most batchSize. A larger value is faster and needs larger compute buffers. Defaults to the engine's own value, 512.",
    )
    .optional(),
  promptCacheMiB: int32(0, 1048576)
    .describe(
      "Size of the cache for earlier prompts in MiB, which is part of the memory claim. 0 disables it. Defaults to 1024 in mode chat; always 0 in modes embedding and rerank.",
    )
    .optional(),
  gpuLayers: int32(-1, 1024)
    .describe("Number of layers that the GPU computes; 0 for none. Defaults to -1, which means all.")
    .optional(),
  moeCPUOffload: toggle
    .describe("If true, all expert weights of a mixture-of-experts model stay in CPU memory.")
    .optional(),
  moeCPULayers: int32(0, 1024)
    .describe("Number of layers, from the first, whose expert weights stay in CPU memory.")
    .optional(),
  noKvOffload: toggle
    .describe(
      "If true, the KV cache stays in CPU memory. This makes little difference on a Mac, where CPU and GPU share memory.",
    )
    .optional(),
  noWarmup: toggle
    .describe(
      "If true, the engine skips its warm-up run: it is ready sooner, and its first response is slower.",
    )
    .optional(),
  reasoningBudget: int32(0, 2097152)
    .describe(
      "Maximum number of tokens that a reasoning model spends on thinking; 0 disables thinking. Defaults to no limit.",
    )
    .optional(),
  reasoningBudgetMessage: z
    .string()
    .max(4096)
    .describe("Text that is inserted when reasoningBudget is exhausted. Requires reasoningBudget.")
    .optional(),
  metadataOverrides: z
    .array(override)
    .max(64)
    .meta({
      description:
        "Overrides of metadata in the model file, in the form key=type:value, for example tokenizer.ggml.add_bos_token=bool:false.",
      ...totalLength(OVERRIDES_LENGTH_MAX, "metadataOverrides"),
    })
    .optional(),
  tensorOverrides: z
    .array(override)
    .max(64)
    .meta({
      description: "Buffer types of tensors, in the form pattern=type, for example \\.ffn_.*_exps\\.=CPU.",
      ...totalLength(OVERRIDES_LENGTH_MAX, "tensorOverrides"),
    })
    .optional(),
  ...singleEngineFields,
  extraArgs: z
    .array(argument)
    .max(256)
    .meta({
      description:
        "Additional command-line arguments of the engine, appended last. On hosts, only arguments on the runtime's allow-list are accepted, which excludes those that read or write files or open ports.",
      ...totalLength(EXTRA_ARGS_LENGTH_MAX, "extraArgs"),
    })
    .optional(),
} as const;

interface SettingEffects {
  /** Part of the memory claim. */
  readonly memory?: true;
  /** Changes the speed of a single request, so it is part of what a benchmark measures; with the default of the engines as text. */
  readonly speed?: { readonly default?: string };
  /** A field whose value, if present, counts instead. */
  readonly unless?: keyof typeof engineFields;
}

/**
 * What a setting changes, if it is memory or speed: the claim, benchmarks and their keys follow from this table. The order is that of
 * the settings of a benchmark.
 */
const SETTING_EFFECTS = {
  contextSize: { memory: true },
  parallelSlots: { memory: true },
  kvUnified: { memory: true },
  promptCacheMiB: { memory: true },
  metadataOverrides: { memory: true },
  cacheTypeCustomK: { memory: true },
  cacheTypeCustomV: { memory: true },
  cacheTypeK: { memory: true, speed: { default: "f16" }, unless: "cacheTypeCustomK" },
  cacheTypeV: { memory: true, speed: { default: "f16" }, unless: "cacheTypeCustomV" },
  flashAttention: { memory: true, speed: {} },
  gpuLayers: { speed: { default: "-1" } },
  noKvOffload: { speed: { default: "false" } },
  moeCPUOffload: { speed: { default: "false" } },
  moeCPULayers: { speed: { default: "0" } },
  batchSize: { memory: true, speed: { default: "2048" } },
  uBatchSize: { memory: true, speed: { default: "512" } },
} as const satisfies Partial<Record<keyof typeof engineFields, SettingEffects>>;

type Effects = typeof SETTING_EFFECTS;
type WithEffect<Effect extends "memory" | "speed"> = {
  [Name in keyof Effects]: Effects[Name] extends Readonly<Record<Effect, unknown>> ? Name : never;
}[keyof Effects];
/** Settings that are part of the memory claim. */
export type MemorySetting = WithEffect<"memory">;
/** Settings that change the speed of a single request. */
export type SpeedSetting = WithEffect<"speed">;

export const SPEED_SETTINGS = (Object.keys(SETTING_EFFECTS) as (keyof Effects)[]).filter(
  (name): name is SpeedSetting => "speed" in SETTING_EFFECTS[name],
);

/** Text of the value with which engines are as fast as without the setting. */
export function defaultSpeedOf(name: SpeedSetting): string | undefined {
  const { speed }: SettingEffects = SETTING_EFFECTS[name];
  return speed?.default;
}

/** The speed settings of a service, with the value that counts of each. */
export function speedSettingsOf(
  settings: Partial<EngineSettings>,
): Partial<Record<SpeedSetting, SettingValue>> {
  return Object.fromEntries(
    SPEED_SETTINGS.map((name) => {
      const { unless }: SettingEffects = SETTING_EFFECTS[name];
      return [name, (unless && settings[unless]) ?? settings[name]];
    }),
  );
}

type SettingValue = string | number | boolean | undefined;

export const engineSettingsSchema = z.object({
  mode: modeSchema.describe("API that the engine serves: chat, embedding or rerank."),
  ...engineFields,
  speculativeDecoding: z
    .object({ type: speculativeType, ...speculativeTuning })
    .describe(
      "Speculative decoding, which drafts tokens ahead and verifies them in one step. The draft model, if any, is in template.draft.",
    )
    .optional(),
  program: programSchema
    .describe("Program that runtime generic runs. Its arguments may contain placeholders such as {{port}}.")
    .optional(),
});

/** All settings that an engine's command line is rendered from. */
export type EngineSettings = z.output<typeof engineSettingsSchema>;
