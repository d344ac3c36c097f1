/** Engine settings that affect memory, with the defaults of the engine. Invalid sizes are rejected. */
import {
  DEFAULT_CONTEXT_PER_SLOT,
  DEFAULT_PROMPT_CACHE_MIB,
  type EngineSettings,
  type MemorySetting,
} from "../../../api/engine-settings.ts";
import { MetalbridgeError } from "../../../api/errors.ts";
import type { ClaimFiles } from "../../contract/claims.ts";

/** Engine settings that affect memory, and additional files. */
export interface ClaimSettings
  extends Partial<Pick<EngineSettings, MemorySetting | "mode" | "speculativeDecoding">>,
    ClaimFiles {}

export interface ClaimSizes {
  /** Context of the complete engine. */
  readonly contextSize: number;
  readonly slots: number;
  /** Data types of the cached keys and values. */
  readonly typeK: string;
  readonly typeV: string;
  readonly uBatch: number;
  readonly isUnified: boolean;
  readonly isPooled: boolean;
  readonly hasFlashAttention: boolean;
  /** Rows of logits in one step, in which the draft tokens are verified, too. */
  readonly outputs: number;
}

const MICRO_BATCH = 512;
const BATCH = 2048;
/** Number of tokens that llama-server drafts in one step by default. */
const DRAFT_TOKENS = 3;
const NGRAM_DRAFT_TOKENS: Readonly<Record<string, number>> = {
  "ngram-simple": 48,
  "ngram-map-k": 48,
  "ngram-map-k4v": 48,
  "ngram-mod": 64,
  "ngram-cache": 8,
};

/** Throws `ClaimUnknown` for a value that is not a positive integer. */
export function sizesOf(settings: ClaimSettings): ClaimSizes {
  const slots = positive("parallelSlots", settings.parallelSlots ?? 1);
  const contextSize = positive("contextSize", settings.contextSize ?? DEFAULT_CONTEXT_PER_SLOT * slots);
  const batch = positive("batchSize", settings.batchSize ?? BATCH);
  const uBatch = positive("uBatchSize", settings.uBatchSize ?? MICRO_BATCH);
  return {
    contextSize,
    slots,
    typeK: settings.cacheTypeCustomK ?? settings.cacheTypeK ?? "f16",
    typeV: settings.cacheTypeCustomV ?? settings.cacheTypeV ?? "f16",
    uBatch: Math.min(batch, uBatch),
    isUnified: settings.kvUnified ?? false,
    isPooled: settings.mode === "embedding" || settings.mode === "rerank",
    hasFlashAttention: settings.flashAttention ?? true,
    outputs: Math.min(Math.max(batch, slots), slots * (1 + draftTokensOf(settings.speculativeDecoding))),
  };
}

function draftTokensOf(speculative: ClaimSettings["speculativeDecoding"]): number {
  if (speculative === undefined) return 0;
  return speculative.nDraftMax ?? NGRAM_DRAFT_TOKENS[speculative.type] ?? DRAFT_TOKENS;
}

/** Embedding and rerank do not use the cache. */
export function promptCacheMiB({ mode = "chat", promptCacheMiB: size }: ClaimSettings): number {
  if (mode !== "chat" || size === 0) return 0;
  return positive("promptCacheMiB", size ?? DEFAULT_PROMPT_CACHE_MIB);
}

function positive(name: string, value: number): number {
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new MetalbridgeError("ClaimUnknown", `cannot estimate memory: ${name} is ${value}`, {
    summary: `give ${name} as a whole number of at least 1`,
  });
}
