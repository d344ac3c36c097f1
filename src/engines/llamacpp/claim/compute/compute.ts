/** Size of llama-server's compute and output buffers: the engine's computation is laid out here step by step, as its allocator does. */
import type { GgufSummary } from "../../../../models/gguf/summary.ts";
import { createGraph, type Graph, type Tensor } from "./graph.ts";
import { addInputs, type GraphInputs } from "./inputs.ts";
import { addLayers } from "./layers.ts";
import { type ComputeSettings, FLOAT } from "./settings.ts";
import { type ModelShape, modelShape } from "./shape.ts";
import { applyComputeTable, COMPUTE_TABLES, type ComputeTable } from "./table.ts";

/** Layers repeat: more of them need no more room. */
const LAID_OUT = 16;

/** The buffer in which one micro-batch is computed, by the coefficients of its backend. */
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

/** Where the engine puts logits and embeddings for its clients, row by row. */
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
  // Tokens and embeddings mixed in one batch: laid out always, computed only with a projector.
  const fromTokens = graph.step(bytes, inputs.mixed.tokens);
  graph.effect(fromTokens, inputs.mixed.slots, graph.keep(bytes, inputs.mixed.embedding));
  return state;
}
