/** From the header to what status shows and the memory claim needs. */

import { GGUF_TEXT_MAX, type GgufFacts } from "../../api/fields/gguf.ts";
import { defined } from "../../util/defined.ts";
import { truncate } from "../../util/text.ts";
import { type Blocks, type FieldLookup, sizingOf } from "./sizing.ts";
import { fileTypeName } from "./tables.ts";
import type { BlockTensors, GgufHeader, GgufValue } from "./types.ts";
import { countFrom } from "./values.ts";

/** The `gguf` of Model.status, and beyond it what only a reader of the whole header needs. A bare `status.gguf` is a valid summary. */
export interface GgufSummary extends GgufFacts {
  readonly weightsBytes?: number | undefined;
  readonly parameterCount?: number | undefined;
  /** Files that the model is split into. */
  readonly splitCount?: number | undefined;
  /** `clip` for projectors. */
  readonly isProjector?: boolean | undefined;
}

/** Pattern of sliding-window layers where the file does not spell it out: every n-th layer sees everything. */
const SLIDING_PERIODS: Readonly<Record<string, number>> = {
  gemma2: 2,
  gemma3: 6,
  gemma3n: 5,
  cohere2: 4,
  "gpt-oss": 2,
  exaone4: 4,
  olmo2: 4,
};
const MAX_LAYERS = 4096;
/** llama.cpp's number for a model that scores a document against a query. */
const POOLING_RANK = 4;

/** Reads the summary of a model from the headers of all its parts; what they do not tell, or tell in a senseless way, is left out. */
export function summarizeGguf(header: GgufHeader, ...others: readonly GgufHeader[]): GgufSummary {
  const { metadata } = header;
  const parts = [header, ...others];
  const architecture = text(metadata.get("general.architecture"));
  const of = (key: string) => metadata.get(`${architecture}.${key}`);
  const layerCount = bounded(countFrom(of("block_count")), MAX_LAYERS);
  const headCount = countFrom(of("attention.head_count"));
  const headCountKV = countFrom(of("attention.head_count_kv")) ?? headCount;
  const embeddingSize = countFrom(of("embedding_length"));
  const headSize = sizePerHead(embeddingSize, headCount);
  const fileType = countFrom(metadata.get("general.file_type"));
  const slidingWindow = countFrom(of("attention.sliding_window"));
  const facts = {
    architecture:
      architecture === undefined || architecture.length > GGUF_TEXT_MAX ? undefined : architecture,
    modelName: shown(metadata.get("general.name")),
    quantization: fileType === undefined ? undefined : fileTypeName(fileType),
    contextLength: countFrom(of("context_length")),
    embeddingSize,
    layerCount,
    headCount,
    headCountKV,
    keyLength: countFrom(of("attention.key_length")) ?? headSize,
    valueLength: countFrom(of("attention.value_length")) ?? headSize,
    expertCount: countFrom(of("expert_count")),
    feedForwardLength: feedForward(of),
    vocabularySize:
      countFrom(of("vocab_size")) ?? header.vocabularySize ?? length(metadata.get("tokenizer.ggml.tokens")),
    slidingWindow: slidingWindow === 0 ? undefined : slidingWindow,
    tensorCount: countFrom(metadata.get("split.tensors.count")) ?? header.tensorCount,
    fileVersion: header.version,
    license: shown(metadata.get("general.license")),
  };
  const isProjector = architecture === "clip";
  const isRanking =
    countFrom(of("pooling_type")) === POOLING_RANK || parts.some((part) => part.hasClassifier);
  const pattern = of("attention.sliding_window_pattern");
  const sliding = slidingLayers(architecture, pattern, layerCount, facts.slidingWindow);
  return defined({
    ...facts,
    weightsBytes: sumOf(parts.map((part) => part.weightsBytes)),
    parameterCount: sumOf(parts.map((part) => part.parameterCount)),
    slidingWindowPattern: sliding === undefined ? undefined : periodOf(sliding),
    sizing: sizingOf({
      of,
      blocks: joinedBlocks(parts),
      layerCount,
      embeddingSize,
      feedForwardLength: countFrom(of("feed_forward_length")),
      slidingLayers: sliding,
    }),
    ranking: isProjector ? undefined : isRanking,
    splitCount: countFrom(metadata.get("split.count")),
    isProjector: isProjector || undefined,
  });
}

/** For people only, so it may be cut; an architecture that was cut would be another one. */
function shown(value: Parameters<typeof text>[0]): string | undefined {
  const whole = text(value);
  return whole === undefined ? undefined : truncate(whole, GGUF_TEXT_MAX);
}

function sumOf(values: readonly (number | undefined)[]): number | undefined {
  return values.reduce(
    (sum, value) => (sum === undefined || value === undefined ? undefined : sum + value),
    0,
  );
}

function joinedBlocks(parts: readonly GgufHeader[]): Blocks {
  const [only, ...others] = parts;
  if (only !== undefined && others.length === 0) return only.blocks;
  const joined = new Map<string, BlockTensors>();
  for (const [name, { layers, rows }] of parts.flatMap(({ blocks }) => [...blocks])) {
    const known = joined.get(name);
    joined.set(name, {
      layers: [...(known?.layers ?? []), ...layers],
      rows: Math.max(known?.rows ?? 0, rows),
    });
  }
  return joined;
}

/** Zero heads, as recurrent models have, are of size zero. */
function sizePerHead(embeddingSize: number | undefined, heads: number | undefined): number | undefined {
  if (heads === 0) return 0;
  return heads === undefined || embeddingSize === undefined ? undefined : Math.floor(embeddingSize / heads);
}

function feedForward(of: FieldLookup): number | undefined {
  const dense = countFrom(of("feed_forward_length"));
  const used = (countFrom(of("expert_used_count")) ?? 0) + (countFrom(of("expert_shared_count")) ?? 0);
  const experts = used * (countFrom(of("expert_feed_forward_length")) ?? 0);
  return dense === undefined && experts === 0 ? undefined : Math.max(dense ?? 0, experts);
}

function slidingLayers(
  architecture: string | undefined,
  pattern: GgufValue | undefined,
  layerCount: number | undefined,
  window: number | undefined,
): boolean[] | undefined {
  if (window === undefined || layerCount === undefined) return undefined;
  if (typeof pattern === "object" && pattern.items !== undefined) {
    const { items } = pattern;
    return Array.from({ length: layerCount }, (_, index) => Boolean(items[index] ?? false));
  }
  const period = countFrom(pattern) ?? SLIDING_PERIODS[architecture ?? ""];
  // Not known to be windowed: counted in full, which is never too little.
  if (period === undefined || period === 0) return undefined;
  return Array.from({ length: layerCount }, (_, index) => isSlidingIn(period, index));
}

/** The shortest period that spells the layers out, for status, which has no room for all of them. */
function periodOf(layers: readonly boolean[]): number | undefined {
  for (let period = 1; period <= layers.length + 1; period++) {
    if (layers.every((isSliding, index) => isSliding === isSlidingIn(period, index))) return period;
  }
  return undefined;
}

/** Determines whether a layer uses a sliding window if all but the last of every `period` layers do. */
export function isSlidingIn(period: number, layer: number): boolean {
  return layer % period < period - 1;
}

function length(value: GgufValue | undefined): number | undefined {
  return typeof value === "object" ? value.count : undefined;
}

function bounded(value: number | undefined, most: number): number | undefined {
  return value !== undefined && value <= most ? value : undefined;
}

/** Texts come from strangers and go into status: one line, bounded. */
function text(value: GgufValue | undefined): string | undefined {
  if (typeof value !== "string") return undefined;
  const plain = value
    .replace(/\p{C}+/gu, " ")
    .trim()
    .slice(0, 256);
  return plain === "" ? undefined : plain;
}
