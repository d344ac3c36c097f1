/** From an MLX model's `config.json` to the same facts as from a GGUF header, so that one estimate serves both. */

import type { ModelSizing } from "../../api/fields/gguf.ts";
import { defined } from "../../util/defined.ts";
import type { GgufSummary } from "../gguf/summary.ts";
import type { MlxConfig } from "./config.ts";

const MAX_LAYERS = 4096;

/** `weightsBytes`: of all safetensors files. */
export function summarizeMlx(config: MlxConfig, weightsBytes: number): GgufSummary {
  const { hidden_size: width, num_attention_heads: heads, num_hidden_layers: layers } = config;
  const headSize = config.head_dim ?? (width === undefined || !heads ? undefined : Math.floor(width / heads));
  const layerCount = layers === undefined || layers > MAX_LAYERS ? undefined : layers;
  const bits = (config.quantization ?? config.quantization_config)?.bits;
  const expertCount = config.num_experts ?? config.num_local_experts ?? config.n_routed_experts;
  const window = config.sliding_window || undefined;
  return defined({
    architecture: config.model_type,
    quantization: bits === undefined ? undefined : `${bits}-bit`,
    contextLength: config.max_position_embeddings,
    embeddingSize: width,
    layerCount,
    headCount: heads,
    headCountKV: config.num_key_value_heads ?? heads,
    keyLength: headSize,
    valueLength: headSize,
    feedForwardLength: config.intermediate_size ?? config.moe_intermediate_size,
    vocabularySize: config.vocab_size,
    expertCount,
    slidingWindow: window,
    slidingWindowPattern:
      window === undefined || config.layer_types !== undefined ? undefined : config.sliding_window_pattern,
    sizing: sizingOf(config, layerCount, expertCount ?? 0),
    weightsBytes,
  });
}

function sizingOf(
  config: MlxConfig,
  layerCount: number | undefined,
  experts: number,
): ModelSizing | undefined {
  const width = config.moe_intermediate_size ?? config.intermediate_size;
  const shared = config.shared_expert_intermediate_size ?? (config.n_shared_experts ?? 0) * (width ?? 0);
  const sizing = defined({
    layerKinds: layerKinds(config, layerCount),
    ...(experts === 0
      ? {}
      : {
          expertsUsed: config.num_experts_per_tok,
          expertWidth: width,
          sharedExpertWidth: shared || undefined,
          denseLayers: config.first_k_dense_replace || undefined,
        }),
    latent: latentOf(config),
    recurrent: recurrentOf(config),
  });
  return Object.keys(sizing).length === 0 ? undefined : sizing;
}

const KINDS: Readonly<Record<string, string>> = {
  sliding_attention: "w",
  chunked_attention: "w",
  linear_attention: "r",
  recurrent: "r",
  mamba: "r",
};

/** A layer counts as full attention unless it is known to be cheaper. */
function layerKinds(config: MlxConfig, layerCount: number | undefined): string | undefined {
  if (layerCount === undefined) return undefined;
  const interval = config.full_attention_interval ?? 0;
  const kindOf = (layer: number): string => {
    const named = config.layer_types?.[layer];
    if (named !== undefined) return KINDS[named] ?? "a";
    return interval > 0 && recurrentOf(config) !== undefined && (layer + 1) % interval !== 0 ? "r" : "a";
  };
  const kinds = Array.from({ length: layerCount }, (_, layer) => kindOf(layer)).join("");
  return /^a*$/.test(kinds) ? undefined : kinds;
}

function latentOf(config: MlxConfig): ModelSizing["latent"] {
  const { kv_lora_rank: rank, qk_rope_head_dim: ropeLength = 0, v_head_dim: valueLength = 0 } = config;
  if (!rank) return undefined;
  const keyLength = (config.qk_nope_head_dim ?? 0) + ropeLength;
  return { rank, ropeLength, queryRank: config.q_lora_rank ?? 0, keyLength, valueLength };
}

function recurrentOf(config: MlxConfig): ModelSizing["recurrent"] {
  const { linear_num_value_heads: heads, linear_value_head_dim: valueSize } = config;
  const { linear_key_head_dim: stateSize, linear_num_key_heads: groups = 0 } = config;
  if (heads === undefined || valueSize === undefined || stateSize === undefined) return undefined;
  const kernel = config.linear_conv_kernel_dim ?? 4;
  const innerSize = heads * valueSize;
  const channels = innerSize + 2 * groups * stateSize;
  const stateElements = Math.max(0, kernel - 1) * channels + innerSize * stateSize;
  return { kind: "deltaNet", stateElements, innerSize, stateSize, groups, kernel, rank: heads };
}
