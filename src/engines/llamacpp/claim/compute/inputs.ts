/** Inputs of a computation: tokens, positions, masks. An input is kept until the last step that reads it. */
import type { Graph, Tensor } from "./graph.ts";
import { type ComputeSettings, FLOAT, HALF } from "./settings.ts";
import type { ModelShape } from "./shape.ts";

export interface CacheInputs {
  readonly keyIndex: Tensor;
  readonly valueIndex: Tensor;
  readonly mask: Tensor;
  readonly cells: number;
  /** Matrices that rotate heads before they are quantized. */
  readonly keyRotation: Tensor | undefined;
  readonly valueRotation: Tensor | undefined;
}

export interface GraphInputs {
  readonly tokens: Tensor;
  readonly positions: Tensor;
  readonly full: CacheInputs;
  readonly windowed: CacheInputs;
  readonly outputs: Tensor;
  readonly mixed: { readonly tokens: Tensor; readonly slots: Tensor; readonly embedding: Tensor };
}

const INDEX = 8;

export function addInputs(graph: Graph, shape: ModelShape, settings: ComputeSettings): GraphInputs {
  const { tokens, isPooled, cellsPerStream, windowCells } = settings;
  const embeddingBytes = FLOAT * tokens * shape.width;
  const ids = graph.input(FLOAT * tokens);
  // The second input, for projectors, has a buffer even if it is unused.
  graph.input(embeddingBytes);
  const mixed = {
    tokens: graph.input(FLOAT * tokens),
    slots: graph.input(INDEX * tokens),
    embedding: graph.input(embeddingBytes),
  };
  const positions = graph.input(FLOAT * tokens);
  const has = (kind: string) => shape.layers.some((layer) => layer === kind);
  const full = cacheInputs(graph, shape, settings, has("attention") || has("both") ? cellsPerStream : 0);
  const windowed = cacheInputs(graph, shape, settings, has("windowed") ? windowCells : 0);
  const outputs = graph.input(FLOAT * (isPooled ? tokens : settings.outputs));
  return { tokens: ids, positions, full, windowed, outputs, mixed };
}

function cacheInputs(graph: Graph, shape: ModelShape, settings: ComputeSettings, cells: number): CacheInputs {
  const { tokens, hasFlashAttention } = settings;
  const present = cells > 0 ? 1 : 0;
  const keyIndex = graph.input(present * INDEX * tokens);
  const isTransposed = !hasFlashAttention && shape.latent === undefined;
  const rows = isTransposed ? Math.max(0, ...shape.kvHeads) * shape.valueLength : 1;
  const valueIndex = graph.input(present * INDEX * tokens * rows);
  const mask = graph.input(cells * tokens * (hasFlashAttention ? HALF : FLOAT));
  const isRotated = (elementBytes: number, length: number) =>
    cells > 0 && shape.latent === undefined && elementBytes < HALF && length > 0 && length % ROTATED === 0;
  const rotation = (size: number) => graph.input(FLOAT * size * size);
  return {
    keyIndex,
    valueIndex,
    mask,
    cells,
    keyRotation: isRotated(settings.keyBytes, shape.keyLength)
      ? rotation(largestRotation(shape.keyLength))
      : undefined,
    valueRotation: isRotated(settings.valueBytes, shape.valueLength) ? rotation(ROTATED) : undefined,
  };
}

/** Minimum size of a rotation; heads that are no multiple of it are not rotated. */
const ROTATED = 64;

/** The largest power of two that divides the head. */
function largestRotation(length: number): number {
  let size = ROTATED;
  while (length % (2 * size) === 0) size *= 2;
  return size;
}
