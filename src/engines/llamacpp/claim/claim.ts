/** Estimates the memory of an engine before it is started. Admission and placement use the sum. */
import { MetalbridgeError } from "../../../api/errors.ts";
import type { GgufSummary } from "../../../models/gguf/summary.ts";
import type { BufferLayout, MemoryClaim } from "../../contract/claims.ts";
import { type ClaimSettings, type ClaimSizes, promptCacheMiB, sizesOf } from "./claim-settings.ts";
import { createGraph, type Graph, type Tensor } from "./compute/graph.ts";
import { addInputs, type GraphInputs } from "./compute/inputs.ts";
import { addLayers } from "./compute/layers.ts";
import { type ComputeSettings, FLOAT } from "./compute/settings.ts";
import { type ModelShape, modelShape } from "./compute/shape.ts";
import { applyComputeTable, COMPUTE_TABLES, type ComputeTable } from "./compute/table.ts";
import { elementBytes, kvCacheBytes, kvShape } from "./kv-cache.ts";

const MIB = 1 << 20;
/** Memory of a llama-server process without its buffers: code, tokenizer, threads, HTTP. */
const PROCESS_BYTES = 96 * MIB;
/** Compute buffers of a projector, as a divisor of its weights. */
const PROJECTOR_COMPUTE_PART = 4;

/**
 * The claim of an engine. Throws `ClaimUnknown` if the header lacks fields. Sums are capped at the largest safe integer, so
 * that implausible values are rejected and do not overflow.
 */
export function estimateClaim(
  summary: GgufSummary,
  settings: ClaimSettings,
  table: ComputeTable = COMPUTE_TABLES.cpu,
): MemoryClaim {
  const overridden = withOverrides(summary, settings.metadataOverrides);
  const model = engineBytes(overridden, sizesOf(settings), table);
  const draft =
    settings.draft === undefined ? undefined : engineBytes(settings.draft, draftSizes(settings), table);
  const projector = settings.projectorSizeBytes ?? 0;
  const parts = {
    weightsBytes: model.weights,
    kvBytes: model.kv,
    computeBytes: model.compute,
    outputBytes: model.output,
    promptCacheBytes: promptCacheMiB(settings) * MIB,
    projectorBytes: projector + projector / PROJECTOR_COMPUTE_PART,
    draftBytes: draft === undefined ? 0 : draft.weights + draft.kv + draft.compute + draft.output,
    loraBytes: settings.loraSizeBytes ?? 0,
    overheadBytes: PROCESS_BYTES,
  };
  const claimBytes = Object.values(parts).reduce((sum, part) => sum + part, 0);
  return { claimBytes: whole(claimBytes), ...mapValues(parts, whole) };
}

/** Compute buffers of each model that the engine loads, to which the coefficients of a host apply. */
export function bufferLayoutOf(summary: GgufSummary, settings: ClaimSettings): BufferLayout {
  const overridden = withOverrides(summary, settings.metadataOverrides);
  const { compute: model } = engineBytes(overridden, sizesOf(settings), AS_LAID_OUT);
  if (settings.draft === undefined) return { model };
  return { model, draft: engineBytes(settings.draft, draftSizes(settings), AS_LAID_OUT).compute };
}

const AS_LAID_OUT: ComputeTable = { source: "", factor: 1, inputCopies: 0, extraBytes: 0, isMeasured: true };

/** A draft model drafts for itself, and its cache has the default type. */
function draftSizes(settings: ClaimSettings): ClaimSizes {
  return { ...sizesOf({ ...settings, speculativeDecoding: undefined }), typeK: "f16", typeV: "f16" };
}

function engineBytes(summary: GgufSummary, sizes: ClaimSizes, table: ComputeTable) {
  const { slots, contextSize, uBatch, isPooled, outputs } = sizes;
  const kv = kvCacheBytes(summary, sizes);
  if (kv === undefined) throw unknown("layers, key-value heads or head sizes");
  if (summary.weightsBytes === undefined) throw unknown("the size of the weights");
  const tokens = Math.ceil(Math.min(contextSize, uBatch) / slots) * slots;
  const compute = {
    ...sizes,
    ...kvShape(sizes, summary.slidingWindow),
    tokens,
    keyBytes: elementBytes(sizes.typeK),
    valueBytes: elementBytes(sizes.typeV),
    outputs: Math.min(outputs, tokens),
  };
  return {
    weights: summary.weightsBytes,
    kv,
    compute: computeBytes(summary, compute, table),
    output: outputBytes(summary, isPooled ? slots : outputs, isPooled),
  };
}

function unknown(what: string): MetalbridgeError {
  return new MetalbridgeError(
    "ClaimUnknown",
    `cannot estimate memory: the model's header does not state ${what}`,
  );
}

/** Rounds up to whole bytes, at most the largest safe integer, which also replaces NaN. */
function whole(bytes: number): number {
  return bytes < Number.MAX_SAFE_INTEGER ? Math.max(0, Math.ceil(bytes)) : Number.MAX_SAFE_INTEGER;
}

function mapValues<K extends string>(
  values: Record<K, number>,
  change: (value: number) => number,
): Record<K, number> {
  return Object.fromEntries(
    Object.entries<number>(values).map(([key, value]) => [key, change(value)]),
  ) as Record<K, number>;
}

/** Number of layers to lay out. Layers repeat, so more of them need no more memory. */
const LAID_OUT = 16;

/** Size of the buffer for a micro-batch, with the coefficients of the backend. */
export function computeBytes(
  summary: GgufSummary,
  settings: ComputeSettings,
  table: ComputeTable = COMPUTE_TABLES.cpu,
): number {
  const shape = laidOut(modelShape(summary));
  const graph = createGraph();
  const inputs = addInputs(graph, shape, settings);
  const state = addLayers(graph, shape, settings, inputs, addEmbedding(graph, shape, settings, inputs));
  const normed = graph.over([graph.over([state])]);
  if (!settings.isPooled) graph.keep(FLOAT * settings.outputs * shape.vocabulary, normed);
  return applyComputeTable(table, graph.peakBytes(), graph.inputBytes());
}

/** Size of the buffer for logits and embeddings of clients. */
function outputBytes(summary: GgufSummary, rows: number, isPooled: boolean): number {
  const { vocabulary, width } = modelShape(summary);
  return rows * FLOAT * (vocabulary + (isPooled ? width : 0));
}

function laidOut(shape: ModelShape): ModelShape {
  if (shape.layers.length <= LAID_OUT) return shape;
  const last = shape.layers.length - 1;
  const some = <T>(values: readonly T[]) => [...values.slice(0, LAID_OUT), ...values.slice(last)];
  return { ...shape, layers: some(shape.layers), kvHeads: some(shape.kvHeads) };
}

function addEmbedding(
  graph: Graph,
  shape: ModelShape,
  { tokens }: ComputeSettings,
  inputs: GraphInputs,
): Tensor {
  const bytes = FLOAT * tokens * shape.width;
  const state = graph.step(bytes, inputs.tokens);
  // A batch with tokens and embeddings is always laid out, but computed only with a projector.
  const fromTokens = graph.step(bytes, inputs.mixed.tokens);
  graph.effect(fromTokens, inputs.mixed.slots, graph.keep(bytes, inputs.mixed.embedding));
  return state;
}

type Change = (value: number, summary: GgufSummary) => Partial<GgufSummary>;

const sizing =
  (change: object): Change =>
  (_, summary) => ({ sizing: { ...summary.sizing, ...change } });

/** Changes by key without the prefix of the architecture. */
const CHANGES: Readonly<Record<string, Change>> = {
  context_length: (contextLength) => ({ contextLength }),
  embedding_length: (embeddingSize) => ({ embeddingSize }),
  feed_forward_length: (feedForwardLength) => ({ feedForwardLength }),
  vocab_size: (vocabularySize) => ({ vocabularySize }),
  "attention.head_count": (headCount) => ({ headCount }),
  "attention.head_count_kv": (headCountKV, summary) => ({
    headCountKV,
    ...sizing({ headCountKVByLayer: undefined })(headCountKV, summary),
  }),
  "attention.key_length": (keyLength) => ({ keyLength }),
  "attention.value_length": (valueLength) => ({ valueLength }),
  "attention.sliding_window": (window) => ({ slidingWindow: window === 0 ? undefined : window }),
  expert_used_count: (expertsUsed, summary) => sizing({ expertsUsed })(expertsUsed, summary),
};

/** Overrides have the form `key=int:value` of `--override-kv`. Those that do not affect sizes are ignored. */
function withOverrides(summary: GgufSummary, overrides: readonly string[] = []): GgufSummary {
  let changed = summary;
  for (const override of overrides) {
    const match = /^([^=]+)=int:(\d{1,9})$/.exec(override);
    const prefix = `${summary.architecture ?? ""}.`;
    const key = match?.[1]?.startsWith(prefix) === true ? match[1].slice(prefix.length) : "";
    const change = CHANGES[key];
    if (change !== undefined) changed = { ...changed, ...change(Number(match?.[2]), changed) };
  }
  return changed;
}
