/** Size of llama-server's compute and output buffers. The formulas were fitted to what the engine prints. */
import type { GgufSummary } from "../gguf/summary.ts";

const FLOAT_BYTES = 4;

export interface ComputeSettings {
  readonly uBatch: number;
  readonly slots: number;
  readonly cellsPerStream: number;
  readonly hasFlashAttention: boolean;
}

/** The widest point of one step: the feed-forward part, or without flash attention the matrix of all scores. */
export function computeBytes(summary: GgufSummary, settings: ComputeSettings): number {
  const { uBatch, cellsPerStream, hasFlashAttention } = settings;
  const width = summary.embeddingSize ?? 0;
  const feedForward = summary.feedForwardLength ?? FEED_FORWARD_GUESS * width;
  const dense = FLOAT_BYTES * (3 * feedForward + 5 * width);
  if (hasFlashAttention) return uBatch * (dense + 2 * cellsPerStream);
  const mask = FLOAT_BYTES * cellsPerStream;
  const scores = FLOAT_BYTES * (summary.headCount ?? 0) * cellsPerStream;
  return uBatch * (mask + Math.max(dense, scores + ATTENTION_WIDTHS * FLOAT_BYTES * width));
}

/** Feed-forward width in widths of the model, where status does not carry it: larger than nearly all models have. */
const FEED_FORWARD_GUESS = 4;
const ATTENTION_WIDTHS = 6.5;

/** Where the engine puts logits and embeddings for its clients: one row per slot. */
export function outputBytes(summary: GgufSummary, slots: number, isEmbedding: boolean): number {
  const vocabulary = summary.vocabularySize ?? LARGE_VOCABULARY;
  return slots * FLOAT_BYTES * (vocabulary + (isEmbedding ? (summary.embeddingSize ?? 0) : 0));
}

/** Where the size of the vocabulary is not known: the largest in use. */
const LARGE_VOCABULARY = 262_144;
