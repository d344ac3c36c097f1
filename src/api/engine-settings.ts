/** The settings of an engine: one set of fields for InferenceService.spec and for the resolved replica. */
import { z } from "zod";
import { programSchema } from "./fields/program.ts";
import { singleEngineFields } from "./fields/runtime-fields.ts";
import { totalLength } from "./fields/shared.ts";

export const modeSchema = z.enum(["chat", "embedding", "rerank"]);
export type Mode = z.output<typeof modeSchema>;

const CACHE_TYPES = ["f16", "f32", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl"] as const;
const cacheType = z.enum(CACHE_TYPES);
const customCacheType = z
  .string()
  .min(1)
  .max(32)
  .regex(/^[A-Za-z0-9_.-]+$/);
const override = z.string().min(1).max(1024);
const toggle = z.boolean();
const argument = z.string().max(4096);
/** Every watcher of services and replicas keeps them in memory. */
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
    "Source of drafted tokens: a draft model (draft*), the model's own heads (mtp), or the text so far (ngram-*).",
  );

export const speculativeTuning = {
  nDraftMax: z
    .int32()
    .min(1)
    .max(1024)
    .describe(
      "Maximum tokens drafted in one step; ngram-cache has no such limit. Absent: the engine's default (3 for draft models, 48 or 64 for ngram types).",
    )
    .optional(),
  pMin: z
    .number()
    .min(0)
    .max(1)
    .describe(
      "Minimum probability for a drafted token to be kept, 0 to 1; only for draft models. Absent: the engine's default.",
    )
    .optional(),
};

export const ropeScalingSchema = z.object({
  type: z
    .enum(["linear", "yarn", "longrope"])
    .describe("Method of RoPE scaling, which extends the context beyond the trained length."),
  factor: z
    .string()
    .max(16)
    .regex(/^[0-9]+(\.[0-9]+)?$/)
    .describe('How far it is stretched, as a string: "4.0" makes 32768 trained tokens 131072.')
    .optional(),
  originalContext: z
    .int32()
    .min(128)
    .max(2097152)
    .describe("Trained context length in tokens, used by yarn and longrope. Absent: from the model file.")
    .optional(),
});

/** Settings that InferenceService.spec and EngineSettings share, names and meaning alike. */
export const engineFields = {
  contextSize: z
    .int32()
    .min(128)
    .max(2097152)
    .describe(
      "Context of the whole engine, in tokens, shared by all parallelSlots: 8192 with 4 slots gives each request 2048. It sizes the KV cache and so the memory claim. Absent: 4096 per slot, less if the model was trained for less.",
    )
    .optional(),
  parallelSlots: z
    .int32()
    .min(1)
    .max(64)
    .describe("Number of concurrent requests (slots); each has its share of contextSize. Absent: 1.")
    .optional(),
  kvUnified: toggle
    .describe(
      "One KV cache for all slots, so that a single request may use all of contextSize while others are short. Absent: false, each slot has an equal share of its own.",
    )
    .optional(),
  ropeScaling: ropeScalingSchema
    .describe(
      "RoPE scaling: extends the model's context beyond its trained length. Absent: as in the model file.",
    )
    .optional(),
  flashAttention: toggle
    .describe("Turns flash attention on or off. Absent: the engine decides; a quantized cacheTypeV needs it.")
    .optional(),
  jinja: toggle
    .describe(
      "Uses the model's own chat template (needed for tool calls). Absent: the engine's default, on in current llama-server.",
    )
    .optional(),
  chatTemplate: z
    .string()
    .min(1)
    .max(65536)
    .describe("Chat template (Jinja source), used instead of the one in the model file.")
    .optional(),
  pooling: z
    .enum(["mean", "cls", "last"])
    .describe(
      "How mode embedding turns the vectors of all tokens into one: their mean, the first (cls) or the last. Absent: as in the model file.",
    )
    .optional(),
  slotSaveRestore: toggle
    .describe(
      "Lets clients save a slot's KV cache to the host's disk and restore it (POST /slots/{id}?action=save or restore). The files belong to the replica and are deleted with it; their number and size are not limited.",
    )
    .optional(),
  cacheTypeK: cacheType
    .describe("Element type of the keys in the KV cache: q8_0 halves its memory against f16. Absent: f16.")
    .optional(),
  cacheTypeV: cacheType
    .describe(
      "Element type of the values in the KV cache; quantized types need flash attention. Absent: f16.",
    )
    .optional(),
  cacheTypeCustomK: customCacheType
    .describe("A key type outside the enum of cacheTypeK, which it overrides. The engine must support it.")
    .optional(),
  cacheTypeCustomV: customCacheType
    .describe("A value type outside the enum of cacheTypeV, which it overrides. The engine must support it.")
    .optional(),
  batchSize: z
    .int32()
    .min(1)
    .max(16384)
    .describe(
      "Maximum prompt tokens submitted to the engine in one step. Absent: the engine's default (2048).",
    )
    .optional(),
  uBatchSize: z
    .int32()
    .min(1)
    .max(16384)
    .describe(
      "Micro-batch size: prompt tokens computed together; more is faster and needs larger compute buffers. At most batchSize. Absent: the engine's default (512).",
    )
    .optional(),
  promptCacheMiB: z
    .int32()
    .min(0)
    .max(1048576)
    .describe(
      "Prompt cache size in MiB: memory beside the model that keeps prompts of earlier requests; part of the claim. 0 turns it off, and it is 0 for embedding and rerank. Absent: 1024 for chat.",
    )
    .optional(),
  gpuLayers: z
    .int32()
    .min(-1)
    .max(1024)
    .describe("Layers computed by the GPU: -1 or absent for all, 0 for none.")
    .optional(),
  moeCPUOffload: toggle
    .describe("Keeps all expert weights of a mixture-of-experts model on the CPU.")
    .optional(),
  moeCPULayers: z
    .int32()
    .min(0)
    .max(1024)
    .describe("Keeps the expert weights of the first N layers on the CPU; 0 for none.")
    .optional(),
  noKvOffload: toggle
    .describe("Keeps the KV cache in CPU memory. Of little use on a Mac, where memory is shared.")
    .optional(),
  noWarmup: toggle
    .describe("Skips the engine's warm-up run: ready sooner, slower first response.")
    .optional(),
  reasoningBudget: z
    .int32()
    .min(0)
    .max(2097152)
    .describe("Maximum reasoning tokens of a thinking model; 0 turns thinking off. Absent: no limit.")
    .optional(),
  reasoningBudgetMessage: z
    .string()
    .max(4096)
    .describe("Text inserted when the reasoning budget is exhausted; requires reasoningBudget.")
    .optional(),
  metadataOverrides: z
    .array(override)
    .max(64)
    .meta({
      description:
        "Overrides of values in the model file, each key=type:value, for example tokenizer.ggml.add_bos_token=bool:false.",
      ...totalLength(OVERRIDES_LENGTH_MAX, "metadataOverrides"),
    })
    .optional(),
  tensorOverrides: z
    .array(override)
    .max(64)
    .meta({
      description:
        "Buffer types for tensors by pattern, each pattern=type, for example \\.ffn_.*_exps\\.=CPU.",
      ...totalLength(OVERRIDES_LENGTH_MAX, "tensorOverrides"),
    })
    .optional(),
  ...singleEngineFields,
  extraArgs: z
    .array(argument)
    .max(256)
    .meta({
      description:
        "Further engine arguments, appended last. On Macs each must be on the runtime's allow-list: none that reads or writes other files or opens other ports.",
      ...totalLength(EXTRA_ARGS_LENGTH_MAX, "extraArgs"),
    })
    .optional(),
} as const;

export const engineSettingsSchema = z.object({
  mode: modeSchema.describe("What the engine serves: chat, embedding or rerank."),
  ...engineFields,
  speculativeDecoding: z
    .object({ type: speculativeType, ...speculativeTuning })
    .describe(
      "Speculative decoding: drafts tokens ahead and verifies them in one step. The draft model, if any, is in template.draft.",
    )
    .optional(),
  program: programSchema
    .describe("The native program of runtime generic. Texts may hold placeholders such as {{port}}.")
    .optional(),
});

/** Everything an engine's command line is rendered from. */
export type EngineSettings = z.output<typeof engineSettingsSchema>;
