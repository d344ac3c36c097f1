/** Architectures of models without weights: the tensors that llama-server requires, layer by layer. */
import {
  attention,
  type BuildArchitecture,
  expertKeys,
  experts,
  feedForward,
  headNorms,
  norm,
  outputLayer,
  perLayer,
} from "./blocks.ts";
import { granitehybrid, jamba, mamba } from "./recurrent.ts";
import { f32, matrix, u32, vector } from "./shape.ts";

/** Its experts have the width in `feed_forward_length`. */
const llama: BuildArchitecture = (given) => {
  const { experts: some, feedForward: width } = given;
  const shape = some === undefined ? given : { ...given, experts: { ...some, width } };
  return {
    keys: expertKeys(shape),
    tensors: [
      ...perLayer(shape, (layer) => [...attention(shape, layer), ...experts(shape, layer)]),
      outputLayer(shape),
    ],
  };
};

const qwen2: BuildArchitecture = (shape) => ({
  keys: {},
  tensors: [
    ...perLayer(shape, (layer) => [
      ...attention(shape, layer),
      vector(`blk.${layer}.attn_q.bias`, shape.heads * shape.headSize),
      vector(`blk.${layer}.attn_k.bias`, shape.kvHeads * shape.headSize),
      vector(`blk.${layer}.attn_v.bias`, shape.kvHeads * shape.headSize),
      ...feedForward(shape, layer),
    ]),
    outputLayer(shape),
  ],
});

const qwen3: BuildArchitecture = (shape) => ({
  keys: expertKeys(shape),
  tensors: [
    ...perLayer(shape, (layer) => [
      ...attention(shape, layer),
      ...headNorms(shape, layer),
      ...experts(shape, layer),
    ]),
    outputLayer(shape),
  ],
});

const gemma2: BuildArchitecture = (shape) => ({
  keys: {
    "attention.sliding_window": u32(shape.window ?? 4096),
    attn_logit_softcapping: f32(50),
    final_logit_softcapping: f32(30),
  },
  tensors: perLayer(shape, (layer) => [
    ...attention(shape, layer),
    norm(`blk.${layer}.post_attention_norm`, shape.width),
    ...feedForward(shape, layer),
    norm(`blk.${layer}.post_ffw_norm`, shape.width),
  ]),
});

const gemma3: BuildArchitecture = (shape) => ({
  keys: { "attention.sliding_window": u32(shape.window ?? 1024) },
  tensors: perLayer(shape, (layer) => [
    ...attention(shape, layer),
    ...headNorms(shape, layer),
    norm(`blk.${layer}.post_attention_norm`, shape.width),
    ...feedForward(shape, layer),
    norm(`blk.${layer}.post_ffw_norm`, shape.width),
  ]),
});

const phi3: BuildArchitecture = (shape) => {
  const { width, heads, kvHeads, headSize, feedForward } = shape;
  return {
    keys: {},
    tensors: [
      ...perLayer(shape, (layer) => [
        norm(`blk.${layer}.attn_norm`, width),
        matrix(shape, `blk.${layer}.attn_qkv`, width, (heads + 2 * kvHeads) * headSize),
        matrix(shape, `blk.${layer}.attn_output`, heads * headSize, width),
        norm(`blk.${layer}.ffn_norm`, width),
        matrix(shape, `blk.${layer}.ffn_up`, width, 2 * feedForward),
        matrix(shape, `blk.${layer}.ffn_down`, feedForward, width),
      ]),
      outputLayer(shape),
    ],
  };
};

/** Multi-head latent attention: `headSize` is the size of values, and of keys without their positional part. */
const deepseek2: BuildArchitecture = (shape) => {
  const { width, heads, headSize } = shape;
  const [rope, latent, query] = [64, 512, 768];
  return {
    keys: {
      ...expertKeys(shape),
      "attention.head_count_kv": u32(1),
      "attention.q_lora_rank": u32(query),
      "attention.kv_lora_rank": u32(latent),
      "attention.key_length": u32(latent + rope),
      "attention.value_length": u32(latent),
      "attention.key_length_mla": u32(headSize + rope),
      "attention.value_length_mla": u32(headSize),
      "rope.dimension_count": u32(rope),
      leading_dense_block_count: u32(shape.experts === undefined ? shape.layers : 1),
      ...(shape.experts === undefined
        ? { expert_count: u32(0), expert_used_count: u32(0), expert_feed_forward_length: u32(1408) }
        : {}),
      expert_shared_count: u32(1),
      expert_weights_scale: f32(1),
      expert_gating_func: u32(2),
    },
    tensors: [
      ...perLayer(shape, (layer) => {
        const name = (part: string) => `blk.${layer}.${part}`;
        return [
          norm(name("attn_norm"), width),
          matrix(shape, name("attn_q_a"), width, query),
          norm(name("attn_q_a_norm"), query),
          matrix(shape, name("attn_q_b"), query, heads * (headSize + rope)),
          matrix(shape, name("attn_kv_a_mqa"), width, latent + rope),
          norm(name("attn_kv_a_norm"), latent),
          matrix(shape, name("attn_k_b"), headSize, latent, heads),
          matrix(shape, name("attn_v_b"), latent, headSize, heads),
          matrix(shape, name("attn_output"), heads * headSize, width),
          ...(layer === 0 || shape.experts === undefined
            ? feedForward(shape, layer)
            : [
                ...experts(shape, layer),
                matrix(shape, name("ffn_gate_shexp"), width, shape.experts.width),
                matrix(shape, name("ffn_up_shexp"), width, shape.experts.width),
                matrix(shape, name("ffn_down_shexp"), shape.experts.width, width),
              ]),
        ];
      }),
      outputLayer(shape),
    ],
  };
};

export const MODEL_ARCHITECTURES = {
  llama,
  qwen2,
  qwen3,
  qwen3moe: qwen3,
  gemma2,
  gemma3,
  phi3,
  deepseek2,
  mamba,
  jamba,
  granitehybrid,
} as const satisfies Record<string, BuildArchitecture>;

export type SparseArchitecture = keyof typeof MODEL_ARCHITECTURES;
