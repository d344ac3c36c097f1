/** Tensors of blocks that most architectures share. */
import type { GgufWriteTensor } from "../../local/demo/gguf-writer.ts";
import { matrix, type SparseParts, type SparseShape, u32, vector } from "./shape.ts";

export type BuildArchitecture = (shape: SparseShape) => SparseParts;

export const norm = (name: string, size: number) => vector(`${name}.weight`, size);

export function attention(shape: SparseShape, layer: number): GgufWriteTensor[] {
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

export function headNorms({ headSize }: SparseShape, layer: number): GgufWriteTensor[] {
  return [norm(`blk.${layer}.attn_q_norm`, headSize), norm(`blk.${layer}.attn_k_norm`, headSize)];
}

export function feedForward(shape: SparseShape, layer: number): GgufWriteTensor[] {
  const { width, feedForward } = shape;
  const name = (part: string) => `blk.${layer}.${part}`;
  return [
    norm(name("ffn_norm"), width),
    matrix(shape, name("ffn_gate"), width, feedForward),
    matrix(shape, name("ffn_up"), width, feedForward),
    matrix(shape, name("ffn_down"), feedForward, width),
  ];
}

export function experts(shape: SparseShape, layer: number): GgufWriteTensor[] {
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

export const expertKeys = ({ experts }: SparseShape) =>
  experts === undefined
    ? {}
    : {
        expert_count: u32(experts.count),
        expert_used_count: u32(experts.used),
        expert_feed_forward_length: u32(experts.width),
      };

export function perLayer(
  shape: SparseShape,
  of: (layer: number) => readonly GgufWriteTensor[],
): GgufWriteTensor[] {
  return Array.from({ length: shape.layers }, (_, layer) => of(layer)).flat();
}

export const outputLayer = (shape: SparseShape) => matrix(shape, "output", shape.width, shape.vocabulary);
