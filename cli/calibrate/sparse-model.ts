/** Writes models whose weights are holes in the file, so that large models need no disk space. Engines load them normally. */
import { type GgufWriteValue, writeGguf } from "../../local/demo/gguf-writer.ts";
import { tinyVocabulary } from "../../local/demo/tiny-vocabulary.ts";
import { MODEL_ARCHITECTURES, type SparseArchitecture } from "./architectures.ts";
import { f32, matrix, SPARSE_TYPES, type SparseShape, u32, vector } from "./shape.ts";

export interface SparseModel extends SparseShape {
  readonly architecture: SparseArchitecture;
}

/** Returns the apparent size of the file in bytes. */
export async function writeSparseModel(path: string, model: SparseModel): Promise<number> {
  const { keys, tensors } = MODEL_ARCHITECTURES[model.architecture](model);
  const metadata = new Map<string, GgufWriteValue>();
  const add = (values: Readonly<Record<string, GgufWriteValue | undefined>>, prefix = "") => {
    for (const [key, value] of Object.entries(values)) {
      if (value === undefined) metadata.delete(prefix + key);
      else metadata.set(prefix + key, value);
    }
  };
  add({
    "general.architecture": { type: "string", value: model.architecture },
    "general.name": { type: "string", value: "Without weights" },
    "general.file_type": u32(SPARSE_TYPES[model.weightType ?? "f16"].fileType),
  });
  add(commonKeys(model), `${model.architecture}.`);
  add(keys, `${model.architecture}.`);
  add(tokenizerKeys(model.vocabulary));
  return writeGguf(path, {
    metadata,
    tensors: [
      matrix(model, "token_embd", model.width, model.vocabulary),
      ...tensors,
      vector("output_norm.weight", model.width),
    ],
  });
}

/** Bytes of all tensors, without writing them. */
export function sparseWeightsBytes(model: SparseModel): number {
  const { tensors } = MODEL_ARCHITECTURES[model.architecture](model);
  const embedding = matrix(model, "token_embd", model.width, model.vocabulary);
  return [embedding, ...tensors].reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}

function commonKeys(model: SparseModel) {
  return {
    context_length: u32(model.contextLength ?? 32_768),
    embedding_length: u32(model.width),
    block_count: u32(model.layers),
    feed_forward_length: u32(model.feedForward),
    "attention.head_count": u32(model.heads),
    "attention.head_count_kv": u32(model.kvHeads),
    "attention.key_length": u32(model.headSize),
    "attention.value_length": u32(model.headSize),
    "attention.layer_norm_rms_epsilon": f32(1e-5),
    "rope.dimension_count": u32(model.headSize),
  };
}

const UNUSED = 5;
const NEVER = -2000;

function tokenizerKeys(size: number): Record<string, GgufWriteValue> {
  const known = tinyVocabulary(false);
  const padding = Array.from({ length: Math.max(0, size - known.length) }, (_, index) => `<pad${index}>`);
  return {
    "tokenizer.ggml.model": { type: "string", value: "llama" },
    "tokenizer.ggml.tokens": { type: "strings", value: [...known.map(({ text }) => text), ...padding] },
    "tokenizer.ggml.scores": {
      type: "f32s",
      value: [...known.map(({ score }) => score), ...padding.map(() => NEVER)],
    },
    "tokenizer.ggml.token_type": {
      type: "i32s",
      value: [...known.map(({ type }) => type), ...padding.map(() => UNUSED)],
    },
    "tokenizer.ggml.unknown_token_id": u32(0),
    "tokenizer.ggml.bos_token_id": u32(1),
    "tokenizer.ggml.eos_token_id": u32(2),
  };
}
