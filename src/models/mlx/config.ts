/** The fields of a model folder's `config.json` that determine memory. Each may be missing or have any type. */

import { z } from "zod";
import { defined } from "../../util/defined.ts";
import { parseJson } from "../../util/parse-json.ts";

const count = z.int().min(0).optional().catch(undefined);
const words = z.array(z.string()).max(4096).optional().catch(undefined);

const fields = {
  model_type: z.string().max(256).optional().catch(undefined),
  num_hidden_layers: count,
  hidden_size: count,
  num_attention_heads: count,
  num_key_value_heads: count,
  head_dim: count,
  intermediate_size: count,
  vocab_size: count,
  max_position_embeddings: count,
  sliding_window: count,
  sliding_window_pattern: count,
  layer_types: words,
  full_attention_interval: count,
  num_experts: count,
  num_local_experts: count,
  n_routed_experts: count,
  num_experts_per_tok: count,
  moe_intermediate_size: count,
  n_shared_experts: count,
  shared_expert_intermediate_size: count,
  first_k_dense_replace: count,
  kv_lora_rank: count,
  q_lora_rank: count,
  qk_rope_head_dim: count,
  qk_nope_head_dim: count,
  v_head_dim: count,
  linear_num_value_heads: count,
  linear_num_key_heads: count,
  linear_key_head_dim: count,
  linear_value_head_dim: count,
  linear_conv_kernel_dim: count,
} as const;

const quantization = z.object({ bits: count }).optional().catch(undefined);

const mlxConfigSchema = z.object({ ...fields, quantization, quantization_config: quantization });

/** In a vision model, the settings of the language model are in `text_config`. */
const outerSchema = mlxConfigSchema.extend({ text_config: mlxConfigSchema.optional().catch(undefined) });

export type MlxConfig = z.output<typeof mlxConfigSchema>;

/** Undefined if the text is not a JSON object. */
export function parseMlxConfig(text: string): MlxConfig | undefined {
  const parsed = outerSchema.safeParse(parseJson(text));
  if (!parsed.success) return undefined;
  const { text_config: inner, ...outer } = parsed.data;
  if (inner === undefined) return outer;
  const known = defined(inner);
  return { ...outer, ...known };
}

const indexSchema = z.object({ metadata: z.object({ total_size: z.int().min(1) }) });

/** Bytes of all tensors, by `model.safetensors.index.json`; undefined if it does not state them. */
export function parseSafetensorsIndex(text: string): number | undefined {
  const parsed = indexSchema.safeParse(parseJson(text));
  return parsed.success ? parsed.data.metadata.total_size : undefined;
}
