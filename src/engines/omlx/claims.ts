/** Memory of a model in oMLX: the same sum as for llama-server, with the step size and caches of MLX. Pure. */
import type { ClaimEstimator } from "../contract/claims.ts";
import { llamacppClaims } from "../llamacpp/claims.ts";
import { hotCacheBytes } from "./settings.ts";

/** Number of prompt tokens that MLX computes in one step. */
const PREFILL_STEP = 2048;
const MIB = 1024 ** 2;

export const omlxClaims: ClaimEstimator = {
  estimate: (summary, settings, accelerator) => {
    const { mode, contextSize, parallelSlots, turboQuantBits } = settings;
    const cacheType = cacheTypeFor(turboQuantBits);
    return llamacppClaims.estimate(
      summary,
      {
        mode,
        contextSize,
        parallelSlots,
        flashAttention: true,
        batchSize: PREFILL_STEP,
        uBatchSize: PREFILL_STEP,
        cacheTypeK: cacheType,
        cacheTypeV: cacheType,
        promptCacheMiB: Math.ceil(hotCacheBytes(settings) / MIB),
      },
      accelerator,
    );
  },
  uncountedArgs: [],
  contextWarning: llamacppClaims.contextWarning,
};

/** The next larger type of known size, because scales are stored with the elements. */
function cacheTypeFor(bits: number | undefined): "f16" | "q4_0" | "q8_0" {
  if (bits === undefined) return "f16";
  return bits <= 3 ? "q4_0" : "q8_0";
}
