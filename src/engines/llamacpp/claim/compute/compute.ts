/** Size of llama-server's compute and output buffers: lays out the computation step by step in the same way as its allocator. */
import type { GgufSummary } from "../../../../models/gguf/summary.ts";
import { createGraph, type Graph, type Tensor } from "./graph.ts";
import { addInputs, type GraphInputs } from "./inputs.ts";
import { addLayers } from "./layers.ts";
import { type ComputeSettings, FLOAT } from "./settings.ts";
import { type ModelShape, modelShape } from "./shape.ts";
import { applyComputeTable, COMPUTE_TABLES, type ComputeTable } from "./table.ts";

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
export function outputBytes(summary: GgufSummary, rows: number, isPooled: boolean): number {
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
