/** From the header to what status shows and the memory claim needs. */
import type { GgufFacts } from "../api/fields/gguf.ts";
import { fileTypeName } from "./tables.ts";
import type { GgufHeader, GgufValue } from "./types.ts";

/** The `gguf` of Model.status, and beyond it what a claim is exact with. A bare `status.gguf` is a valid, coarser summary. */
export interface GgufSummary extends GgufFacts {
  readonly weightsBytes?: number | undefined;
  readonly parameterCount?: number | undefined;
  readonly expertsUsed?: number | undefined;
  /** Per layer, where layers differ; 0 = a layer without attention. */
  readonly headCountKVByLayer?: readonly number[] | undefined;
  /** Per layer: true where the layer looks back only `slidingWindow` tokens. */
  readonly slidingLayers?: readonly boolean[] | undefined;
  readonly keyLengthSliding?: number | undefined;
  readonly valueLengthSliding?: number | undefined;
  readonly recurrent?: RecurrentState | undefined;
  /** Files that the model is split into. */
  readonly splitCount?: number | undefined;
  /** `clip` for projectors. */
  readonly isProjector?: boolean | undefined;
}

/** State of recurrent layers: elements per sequence and layer, and which layers have it. */
export interface RecurrentState {
  readonly elements: number;
  readonly layers: number;
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

/** Reads the summary; what the header does not tell, or tells in a senseless way, is left out. */
export function summarizeGguf(header: GgufHeader): GgufSummary {
  const { metadata } = header;
  const architecture = text(metadata.get("general.architecture"));
  const of = (key: string) => metadata.get(`${architecture}.${key}`);
  const layerCount = bounded(count(of("block_count")), MAX_LAYERS);
  const headCount = count(of("attention.head_count"));
  const headCountKV = count(of("attention.head_count_kv")) ?? headCount;
  const embeddingSize = count(of("embedding_length"));
  const headSize = headCount && embeddingSize ? Math.floor(embeddingSize / headCount) : undefined;
  const fileType = count(metadata.get("general.file_type"));
  const slidingWindow = count(of("attention.sliding_window"));
  const facts = {
    architecture,
    modelName: text(metadata.get("general.name")),
    quantization: fileType === undefined ? undefined : fileTypeName(fileType),
    contextLength: count(of("context_length")),
    embeddingSize,
    layerCount,
    headCount,
    headCountKV,
    keyLength: count(of("attention.key_length")) ?? headSize,
    valueLength: count(of("attention.value_length")) ?? headSize,
    expertCount: count(of("expert_count")),
    feedForwardLength: feedForward(of),
    vocabularySize:
      count(of("vocab_size")) ?? header.vocabularySize ?? length(metadata.get("tokenizer.ggml.tokens")),
    slidingWindow: slidingWindow === 0 ? undefined : slidingWindow,
    tensorCount: count(metadata.get("split.tensors.count")) ?? header.tensorCount,
    fileVersion: header.version,
    license: text(metadata.get("general.license")),
  };
  const isProjector = architecture === "clip";
  const pattern = of("attention.sliding_window_pattern");
  const sliding = slidingLayers(architecture, pattern, layerCount, facts.slidingWindow);
  return definedOf({
    ...facts,
    weightsBytes: header.weightsBytes,
    parameterCount: header.parameterCount,
    expertsUsed: count(of("expert_used_count")),
    headCountKVByLayer: numbers(of("attention.head_count_kv")),
    slidingLayers: sliding,
    slidingWindowPattern: sliding === undefined ? undefined : periodOf(sliding),
    keyLengthSliding: count(of("attention.key_length_swa")),
    valueLengthSliding: count(of("attention.value_length_swa")),
    recurrent: recurrentState(of, layerCount, embeddingSize),
    splitCount: count(metadata.get("split.count")),
    isProjector: isProjector || undefined,
  });
}

type Lookup = (key: string) => GgufValue | undefined;

function feedForward(of: Lookup): number | undefined {
  const dense = count(of("feed_forward_length")) ?? 0;
  const used = (count(of("expert_used_count")) ?? 0) + (count(of("expert_shared_count")) ?? 0);
  const experts = used * (count(of("expert_feed_forward_length")) ?? 0);
  return Math.max(dense, experts) || undefined;
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
  const period = count(pattern) ?? SLIDING_PERIODS[architecture ?? ""];
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

/** Whether a layer is a windowed one, where the last of every `period` layers is not. */
export function isSlidingIn(period: number, layer: number): boolean {
  return layer % period < period - 1;
}

function recurrentState(of: Lookup, layerCount = 0, embeddingSize = 0): RecurrentState | undefined {
  const inner = count(of("ssm.inner_size"));
  const state = count(of("ssm.state_size"));
  const headSize = count(of("wkv.head_size"));
  const kvHeads = numbers(of("attention.head_count_kv"));
  const interval = count(of("full_attention_interval"));
  const layers =
    kvHeads !== undefined
      ? kvHeads.filter((heads) => heads === 0).length
      : interval !== undefined && interval > 0
        ? layerCount - Math.floor(layerCount / interval)
        : layerCount;
  if (inner !== undefined && state !== undefined) {
    const kernel = count(of("ssm.conv_kernel")) ?? 4;
    const groups = count(of("ssm.group_count")) ?? 0;
    return { elements: Math.max(0, kernel - 1) * (inner + 2 * groups * state) + inner * state, layers };
  }
  return headSize === undefined ? undefined : { elements: embeddingSize * (headSize + 2), layers };
}

/** A count: a whole number that is not negative; of an array the largest one. */
function count(value: GgufValue | undefined): number | undefined {
  if (typeof value === "object") {
    const all = numbers(value);
    return all === undefined || all.length === 0
      ? undefined
      : all.reduce((most, one) => Math.max(most, one), 0);
  }
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

function numbers(value: GgufValue | undefined): number[] | undefined {
  if (typeof value !== "object" || value.items === undefined) return undefined;
  return value.items.map((item) =>
    typeof item === "number" && Number.isSafeInteger(item) && item > 0 ? item : 0,
  );
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

function definedOf<T extends object>(values: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>;
  };
}
