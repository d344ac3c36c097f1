/** Architectures of models without weights: the tensors that llama-server requires, layer by layer. */

import type { GgufWriteTensor } from "../../local/demo/gguf-writer.ts";
import { f32, matrix, type SparseParts, type SparseShape, u32, vector } from "./shape.ts";

const SSM = { kernel: 4, state: 16 } as const;

function mambaLayer(shape: SparseShape, layer: number): GgufWriteTensor[] {
  const { width } = shape;
  const inner = 2 * width;
  const rank = width / 16;
  const name = (part: string) => `blk.${layer}.${part}`;
  return [
    norm(name("attn_norm"), width),
    matrix(shape, name("ssm_in"), width, 2 * inner),
    vector(`${name("ssm_conv1d")}.weight`, SSM.kernel, inner),
    vector(`${name("ssm_conv1d")}.bias`, inner),
    matrix(shape, name("ssm_x"), inner, rank + 2 * SSM.state),
    matrix(shape, name("ssm_dt"), rank, inner),
    vector(`${name("ssm_dt")}.bias`, inner),
    vector(name("ssm_a"), SSM.state, inner),
    vector(name("ssm_d"), inner),
    matrix(shape, name("ssm_out"), inner, width),
  ];
}

const mambaKeys = ({ width }: SparseShape) => ({
  "ssm.conv_kernel": u32(SSM.kernel),
  "ssm.inner_size": u32(2 * width),
  "ssm.state_size": u32(SSM.state),
  "ssm.time_step_rank": u32(width / 16),
});

const mamba: BuildArchitecture = (shape) => ({
  keys: { ...mambaKeys(shape), "attention.head_count": u32(0), feed_forward_length: u32(0) },
  tensors: [...perLayer(shape, (layer) => mambaLayer(shape, layer)), outputLayer(shape)],
});

/** In a hybrid model, one of this many layers has attention. */
const HYBRID_PERIOD = 4;

const hybridHeads = ({ layers, kvHeads }: SparseShape) => ({
  type: "u32s" as const,
  value: Array.from({ length: layers }, (_, layer) => (isAttention(layer) ? kvHeads : 0)),
});

const isAttention = (layer: number) => layer % HYBRID_PERIOD === HYBRID_PERIOD - 1;

const jamba: BuildArchitecture = (shape) => ({
  keys: { ...mambaKeys(shape), "attention.head_count_kv": hybridHeads(shape) },
  tensors: [
    ...perLayer(shape, (layer) => [
      ...(isAttention(layer)
        ? attention(shape, layer)
        : [
            ...mambaLayer(shape, layer),
            norm(`blk.${layer}.ssm_dt_norm`, shape.width / 16),
            norm(`blk.${layer}.ssm_b_norm`, SSM.state),
            norm(`blk.${layer}.ssm_c_norm`, SSM.state),
          ]),
      ...feedForward(shape, layer),
    ]),
    outputLayer(shape),
  ],
});

const SSM2 = { kernel: 4, state: 128, groups: 1, headSize: 64 } as const;

const granitehybrid: BuildArchitecture = (shape) => {
  const { width } = shape;
  const inner = 2 * width;
  const heads = inner / SSM2.headSize;
  const channels = inner + 2 * SSM2.groups * SSM2.state;
  const recurrent = (layer: number) => {
    const name = (part: string) => `blk.${layer}.${part}`;
    return [
      norm(name("attn_norm"), width),
      matrix(shape, name("ssm_in"), width, inner + channels + heads),
      vector(`${name("ssm_conv1d")}.weight`, SSM2.kernel, channels),
      vector(`${name("ssm_conv1d")}.bias`, channels),
      vector(`${name("ssm_dt")}.bias`, heads),
      vector(name("ssm_a"), 1, heads),
      vector(name("ssm_d"), 1, heads),
      vector(`${name("ssm_norm")}.weight`, inner / SSM2.groups, SSM2.groups),
      matrix(shape, name("ssm_out"), inner, width),
    ];
  };
  return {
    keys: {
      "attention.head_count_kv": hybridHeads(shape),
      "ssm.conv_kernel": u32(SSM2.kernel),
      "ssm.inner_size": u32(inner),
      "ssm.state_size": u32(SSM2.state),
      "ssm.time_step_rank": u32(heads),
      "ssm.group_count": u32(SSM2.groups),
    },
    tensors: [
      ...perLayer(shape, (layer) => [
        ...(isAttention(layer) ? attention(shape, layer) : recurrent(layer)),
        ...feedForward(shape, layer),
      ]),
      outputLayer(shape),
    ],
  };
};

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

type BuildArchitecture = (shape: SparseShape) => SparseParts;

const norm = (name: string, size: number) => vector(`${name}.weight`, size);

function attention(shape: SparseShape, layer: number): GgufWriteTensor[] {
  const { width, heads, kvHeads, headSize } = shape;
  const name = (part: string) => `blk.${layer}.${part}`;
  return [
    norm(name("attn_norm"), width),
    matrix(shape, name("attn_q"), width, heads * headSize),
    matrix(shape, name("attn_k"), width, kvHeads * headSize),
    matrix(shape, name("attn_v"), width, kvHeads * headSize),
    matrix(shape, name("attn_output"), heads * headSize, width),
  ];
}

function headNorms({ headSize }: SparseShape, layer: number): GgufWriteTensor[] {
  return [norm(`blk.${layer}.attn_q_norm`, headSize), norm(`blk.${layer}.attn_k_norm`, headSize)];
}

function feedForward(shape: SparseShape, layer: number): GgufWriteTensor[] {
  const { width, feedForward } = shape;
  const name = (part: string) => `blk.${layer}.${part}`;
  return [
    norm(name("ffn_norm"), width),
    matrix(shape, name("ffn_gate"), width, feedForward),
    matrix(shape, name("ffn_up"), width, feedForward),
    matrix(shape, name("ffn_down"), feedForward, width),
  ];
}

function experts(shape: SparseShape, layer: number): GgufWriteTensor[] {
  const { width, experts } = shape;
  if (experts === undefined) return feedForward(shape, layer);
  const name = (part: string) => `blk.${layer}.${part}`;
  return [
    norm(name("ffn_norm"), width),
    vector(`${name("ffn_gate_inp")}.weight`, width, experts.count),
    matrix(shape, name("ffn_gate_exps"), width, experts.width, experts.count),
    matrix(shape, name("ffn_up_exps"), width, experts.width, experts.count),
    matrix(shape, name("ffn_down_exps"), experts.width, width, experts.count),
  ];
}

const expertKeys = ({ experts }: SparseShape) =>
  experts === undefined
    ? {}
    : {
        expert_count: u32(experts.count),
        expert_used_count: u32(experts.used),
        expert_feed_forward_length: u32(experts.width),
      };

function perLayer(shape: SparseShape, of: (layer: number) => readonly GgufWriteTensor[]): GgufWriteTensor[] {
  return Array.from({ length: shape.layers }, (_, layer) => of(layer)).flat();
}

const outputLayer = (shape: SparseShape) => matrix(shape, "output", shape.width, shape.vocabulary);
