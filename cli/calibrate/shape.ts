/** The shape of a model without weights: header values and required tensors. */
import type { GgufWriteTensor, GgufWriteValue } from "../../local/demo/gguf-writer.ts";

export const SPARSE_TYPES = {
  f32: { ggmlType: 0, blockElements: 1, blockBytes: 4, fileType: 0 },
  f16: { ggmlType: 1, blockElements: 1, blockBytes: 2, fileType: 1 },
  q4_0: { ggmlType: 2, blockElements: 32, blockBytes: 18, fileType: 2 },
  q8_0: { ggmlType: 8, blockElements: 32, blockBytes: 34, fileType: 7 },
} as const;

export interface SparseShape {
  readonly layers: number;
  readonly width: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headSize: number;
  readonly feedForward: number;
  readonly vocabulary: number;
  readonly contextLength?: number;
  readonly weightType?: keyof typeof SPARSE_TYPES;
  /** Sliding window, for architectures that have one. */
  readonly window?: number;
  readonly experts?: { readonly count: number; readonly used: number; readonly width: number };
}

export interface SparseParts {
  /** Keys without the architecture's prefix. */
  readonly keys: Readonly<Record<string, GgufWriteValue | undefined>>;
  readonly tensors: readonly GgufWriteTensor[];
}

export const u32 = (value: number): GgufWriteValue => ({ type: "u32", value });
export const f32 = (value: number): GgufWriteValue => ({ type: "f32", value });

/** A matrix with the weight type of the shape, which is a hole in the file. */
export function matrix(shape: SparseShape, name: string, ...dimensions: number[]): GgufWriteTensor {
  const { ggmlType, blockElements, blockBytes } = SPARSE_TYPES[shape.weightType ?? "f16"];
  const elements = dimensions.reduce((product, size) => product * size, 1);
  return {
    name: `${name}.weight`,
    dimensions,
    ggmlType,
    sizeBytes: (elements / blockElements) * blockBytes,
  };
}

/** A small tensor with full precision, for norms and biases. */
export function vector(name: string, ...dimensions: number[]): GgufWriteTensor {
  const elements = dimensions.reduce((product, size) => product * size, 1);
  return { name, dimensions, ggmlType: 0, sizeBytes: 4 * elements };
}
