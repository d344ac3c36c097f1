/** The values that the parser keeps of a GGUF header. It never keeps the vocabulary. */

/** Arrays keep their count always, and their items only when they are short and numeric. */
export interface GgufArray {
  readonly count: number;
  readonly items?: readonly (number | boolean)[];
}

export type GgufValue = number | boolean | string | GgufArray;

/** The tensors of one name, over all blocks: `blk.7.ffn_up.weight` is `ffn_up.weight` in layer 7. */
export interface BlockTensors {
  readonly layers: readonly number[];
  /** The most rows that one of them has. */
  readonly rows: number;
}

export interface GgufHeader {
  readonly version: number;
  readonly tensorCount: number;
  /** Keys of `general.`, `split.`, `clip.` and of the architecture; of `tokenizer.` only counts and short values. */
  readonly metadata: ReadonlyMap<string, GgufValue>;
  /** Offset of the tensor data. */
  readonly dataOffset: number;
  /** Bytes that the tensors reach behind `dataOffset`: a shorter file is cut off. */
  readonly dataBytes: number;
  /** Sum of the tensors' sizes; undefined when a tensor's type is not known. */
  readonly weightsBytes: number | undefined;
  readonly parameterCount: number;
  readonly blocks: ReadonlyMap<string, BlockTensors>;
  /** True where a tensor belongs to a classifier head, as rerankers have it. */
  readonly hasClassifier: boolean;
  /** Rows of the token embedding. */
  readonly vocabularySize: number | undefined;
}

export type GgufProgress =
  | { readonly done: true; readonly header: GgufHeader }
  /** At least so many bytes more are needed. */
  | { readonly done: false; readonly needBytes: number };
