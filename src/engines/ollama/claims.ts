/** Memory of a model in Ollama, whose runners are llama.cpp: the same sum with the buffer sizes of Ollama. Pure. */
import type { ClaimEstimator } from "../contract/claims.ts";
import { llamacppClaims } from "../llamacpp/claims.ts";

const BATCH = 512;

export const ollamaClaims: ClaimEstimator = {
  estimate: (summary, settings, accelerator) => {
    const { mode, contextSize, parallelSlots, flashAttention, cacheTypeK, cacheTypeV, batchSize } = settings;
    // A quantized cache requires flash attention, which Ollama never uses on a CPU.
    const cache = accelerator === "cpu" ? {} : { cacheTypeK, cacheTypeV };
    const batch = { batchSize: batchSize ?? BATCH, uBatchSize: batchSize ?? BATCH };
    const isAttentionFlash =
      accelerator !== "cpu" && (flashAttention ?? (cacheTypeK !== undefined || cacheTypeV !== undefined));
    const { projectorSizeBytes } = settings;
    // All slots share a cache, so each step attends to all of it.
    const shared = {
      mode,
      contextSize,
      parallelSlots,
      kvUnified: true,
      promptCacheMiB: 0,
      projectorSizeBytes,
    };
    return llamacppClaims.estimate(
      summary,
      { ...shared, ...batch, ...cache, flashAttention: isAttentionFlash },
      accelerator,
    );
  },
  uncountedArgs: [],
  contextWarning: llamacppClaims.contextWarning,
};
