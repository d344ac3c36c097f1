/** Rules across fields that the API server checks, for settings that come from arguments. Pure. */
import type { InferenceServiceSpec } from "../api/inference-service/index.ts";

const BATCH_SIZE = 2048;
const TOKENS_PER_SLOT = 16;

/** Why the settings contradict each other; undefined if they do not. */
export function contradictionInSettings(spec: InferenceServiceSpec): string | undefined {
  const { mode = "chat", contextSize, parallelSlots = 0, kvUnified, uBatchSize = 0, batchSize } = spec;
  const { cacheTypeV = "f16", flashAttention, pooling, promptCacheMiB = 0, chatTemplate, jinja } = spec;
  if (uBatchSize > (batchSize ?? BATCH_SIZE)) return "spec.uBatchSize must not be larger than spec.batchSize";
  if (spec.reasoningBudgetMessage !== undefined && spec.reasoningBudget === undefined)
    return "spec.reasoningBudgetMessage needs spec.reasoningBudget";
  if (flashAttention === false && cacheTypeV !== "f16" && cacheTypeV !== "f32")
    return "spec.cacheTypeV is quantized, which needs flash attention";
  if (promptCacheMiB !== 0 && mode !== "chat") return "spec.promptCacheMiB needs spec.mode chat";
  if (pooling !== undefined && mode !== "embedding") return "spec.pooling needs spec.mode embedding";
  if (chatTemplate !== undefined && jinja === false) return "spec.chatTemplate needs Jinja templates";
  if (contextSize !== undefined && kvUnified !== true && contextSize < parallelSlots * TOKENS_PER_SLOT)
    return "spec.contextSize is shared by all spec.parallelSlots and must leave at least 16 tokens for each";
  return undefined;
}
