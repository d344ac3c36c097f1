/** The engine settings that size memory, with the engine's own defaults; what is no size is refused. */
import type { EngineSettings } from "../../../api/engine-settings.ts";
import { MetalbridgeError } from "../../../api/errors.ts";
import type { ClaimFiles } from "../../contract/claims.ts";

type Sizing =
  | "mode"
  | "contextSize"
  | "parallelSlots"
  | "kvUnified"
  | "flashAttention"
  | "cacheTypeK"
  | "cacheTypeV"
  | "cacheTypeCustomK"
  | "cacheTypeCustomV"
  | "batchSize"
  | "uBatchSize"
  | "promptCacheMiB"
  | "metadataOverrides"
  | "speculativeDecoding";

/** The engine settings that size memory, under their own names, and the files beside the model. */
export interface ClaimSettings extends Partial<Pick<EngineSettings, Sizing>>, ClaimFiles {}

export interface ClaimSizes {
  /** Of the whole engine. */
  readonly contextSize: number;
  readonly slots: number;
  readonly uBatch: number;
  readonly isUnified: boolean;
  readonly isPooled: boolean;
  readonly hasFlashAttention: boolean;
  /** Rows of logits in one step: each guess of speculative decoding is checked in the same step. */
  readonly outputs: number;
}

const CONTEXT_PER_SLOT = 4096;
const MICRO_BATCH = 512;
const BATCH = 2048;
/** Tokens that llama-server drafts in one step where nothing else is asked for. */
const GUESSES = 3;
const NGRAM_GUESSES: Readonly<Record<string, number>> = {
  "ngram-simple": 48,
  "ngram-map-k": 48,
  "ngram-map-k4v": 48,
  "ngram-mod": 64,
  "ngram-cache": 8,
};
const PROMPT_CACHE_MIB = 1024;

/** Throws `ClaimUnknown` for what is no whole number of at least one: NaN, zero, less. */
export function sizesOf(settings: ClaimSettings): ClaimSizes {
  const slots = positive("parallelSlots", settings.parallelSlots ?? 1);
  const contextSize = positive("contextSize", settings.contextSize ?? CONTEXT_PER_SLOT * slots);
  const batch = positive("batchSize", settings.batchSize ?? BATCH);
  const uBatch = positive("uBatchSize", settings.uBatchSize ?? MICRO_BATCH);
  return {
    contextSize,
    slots,
    uBatch: Math.min(batch, uBatch),
    isUnified: settings.kvUnified ?? false,
    isPooled: settings.mode === "embedding" || settings.mode === "rerank",
    hasFlashAttention: settings.flashAttention ?? true,
    outputs: Math.min(Math.max(batch, slots), slots * (1 + guessesOf(settings.speculativeDecoding))),
  };
}

function guessesOf(speculative: ClaimSettings["speculativeDecoding"]): number {
  if (speculative === undefined) return 0;
  return speculative.nDraftMax ?? NGRAM_GUESSES[speculative.type] ?? GUESSES;
}

/** None for embedding and rerank, where it would be dead memory. */
export function promptCacheMiB({ mode = "chat", promptCacheMiB: wanted }: ClaimSettings): number {
  if (mode !== "chat") return 0;
  const size = wanted ?? PROMPT_CACHE_MIB;
  return size === 0 ? 0 : positive("promptCacheMiB", size);
}

function positive(name: string, value: number): number {
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new MetalbridgeError("ClaimUnknown", `cannot estimate memory: ${name} is ${value}`, {
    summary: `give ${name} as a whole number of at least 1`,
  });
}
