/** Recurrent and hybrid architectures without weights. */
import type { GgufWriteTensor } from "../../local/demo/gguf-writer.ts";
import { attention, type BuildArchitecture, feedForward, norm, outputLayer, perLayer } from "./blocks.ts";
import { matrix, type SparseShape, u32, vector } from "./shape.ts";

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

export const mamba: BuildArchitecture = (shape) => ({
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

export const jamba: BuildArchitecture = (shape) => ({
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

export const granitehybrid: BuildArchitecture = (shape) => {
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
