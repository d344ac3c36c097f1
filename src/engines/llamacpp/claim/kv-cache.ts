/** Size of the KV cache per layer, by heads, data types, window, or recurrent state. */
import type { GgufSummary } from "../../../models/gguf/summary.ts";
import type { ClaimSizes } from "./claim-settings.ts";
import { modelShape } from "./compute/shape.ts";

/** Bytes per element of the cache types, including block scales. */
const ELEMENT_BYTES: Readonly<Record<string, number>> = {
  f32: 4,
  f16: 2,
  bf16: 2,
  q8_0: 1.0625,
  q5_1: 0.75,
  q5_0: 0.6875,
  q4_1: 0.625,
  q4_0: 0.5625,
  iq4_nl: 0.5625,
};
/** Cache types of known size. */
export const CACHE_TYPES: readonly string[] = Object.keys(ELEMENT_BYTES);

/** Unknown types count like the default type f16. */
const UNKNOWN_ELEMENT_BYTES = 2;
const CELL_PADDING = 256;
const STATE_BYTES = 4;

export interface KvShape {
  /** Number of separate caches: one per slot, or one for all. */
  readonly streams: number;
  readonly cellsPerStream: number;
  /** Cells per stream of windowed layers: the window and a micro-batch. */
  readonly windowCells: number;
}

/** Division of the context into streams. */
export function kvShape({ contextSize, slots, isUnified, uBatch }: ClaimSizes, window = 0): KvShape {
  const streams = isUnified ? 1 : slots;
  const cellsPerStream = padded(Math.floor(contextSize / streams));
  const windowCells = padded(Math.min(cellsPerStream, window * (isUnified ? slots : 1) + uBatch));
  return { streams, cellsPerStream, windowCells };
}

/** Bytes per element of a cache type. */
export function elementBytes(type: string): number {
  return ELEMENT_BYTES[type.toLowerCase()] ?? UNKNOWN_ELEMENT_BYTES;
}

/** Size of the cache in bytes; undefined if the header lacks fields. */
export function kvCacheBytes(summary: GgufSummary, sizes: ClaimSizes): number | undefined {
  const { layerCount = 0, headCountKV, keyLength, valueLength, sizing } = summary;
  if (layerCount === 0 || headCountKV === undefined || keyLength === undefined || valueLength === undefined) {
    return undefined;
  }
  const { layers, kvHeads, latent, recurrent } = modelShape(summary);
  const { streams, cellsPerStream, windowCells } = kvShape(sizes, summary.slidingWindow);
  const bytesK = elementBytes(sizes.typeK);
  const bytesV = elementBytes(sizes.typeV);
  const perHead = keyLength * bytesK + valueLength * bytesV;
  const perHeadSliding =
    (sizing?.keyLengthSliding ?? keyLength) * bytesK + (sizing?.valueLengthSliding ?? valueLength) * bytesV;
  const state = (recurrent?.stateElements ?? 0) * STATE_BYTES * sizes.slots;
  return layers.reduce((bytes, kind, layer) => {
    const heads = kvHeads[layer] ?? 0;
    // Compressed keys also contain the values.
    const perCell = latent === undefined ? heads * perHead : (latent.rank + latent.ropeLength) * bytesK;
    switch (kind) {
      case "attention":
        return bytes + streams * cellsPerStream * perCell;
      case "windowed":
        return bytes + streams * windowCells * (latent === undefined ? heads * perHeadSliding : perCell);
      case "recurrent":
        return bytes + state;
      case "both":
        return bytes + streams * cellsPerStream * perCell + state;
      case "neither":
        return bytes;
      default:
        return kind satisfies never;
    }
  }, 0);
}

function padded(cells: number): number {
  return Math.ceil(cells / CELL_PADDING) * CELL_PADDING;
}
