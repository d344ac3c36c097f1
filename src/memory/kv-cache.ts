/** Size of the KV cache: per layer, by its heads, its element types, its window, or its recurrent state. */
import { type GgufSummary, isSlidingIn } from "../gguf/summary.ts";

/** Bytes per element of the cache types, block scales included. */
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
/** Names of the cache types whose size is known. */
export const CACHE_TYPES: readonly string[] = Object.keys(ELEMENT_BYTES);

/** A type that is not known is counted like the default, f16, or more. */
const UNKNOWN_ELEMENT_BYTES = 2;
const CELL_PADDING = 256;
const STATE_BYTES = 4;

export interface KvSettings {
  /** Of the whole engine. */
  readonly contextSize: number;
  readonly slots: number;
  readonly isUnified: boolean;
  readonly typeK: string;
  readonly typeV: string;
  readonly uBatch: number;
}

export interface KvShape {
  /** Streams have caches of their own: one per slot, or one for all. */
  readonly streams: number;
  readonly cellsPerStream: number;
}

/** How the engine divides its context. */
export function kvShape({ contextSize, slots, isUnified }: KvSettings): KvShape {
  return isUnified
    ? { streams: 1, cellsPerStream: padded(contextSize) }
    : { streams: slots, cellsPerStream: padded(Math.floor(contextSize / slots)) };
}

/** Bytes of the cache; undefined when the header does not tell enough. */
export function kvCacheBytes(summary: GgufSummary, settings: KvSettings): number | undefined {
  const { layerCount, headCountKV, keyLength, valueLength } = summary;
  if (
    layerCount === undefined ||
    headCountKV === undefined ||
    keyLength === undefined ||
    valueLength === undefined
  ) {
    return undefined;
  }
  const { streams, cellsPerStream } = kvShape(settings);
  const window = slidingCells(summary.slidingWindow ?? 0, cellsPerStream, settings);
  const bytesK = ELEMENT_BYTES[settings.typeK.toLowerCase()] ?? UNKNOWN_ELEMENT_BYTES;
  const bytesV = ELEMENT_BYTES[settings.typeV.toLowerCase()] ?? UNKNOWN_ELEMENT_BYTES;
  let bytes = 0;
  for (let layer = 0; layer < layerCount; layer++) {
    const heads = summary.headCountKVByLayer?.[layer] ?? headCountKV;
    const isSliding = isWindowed(summary, layer);
    const perHead = isSliding
      ? (summary.keyLengthSliding ?? keyLength) * bytesK +
        (summary.valueLengthSliding ?? valueLength) * bytesV
      : keyLength * bytesK + valueLength * bytesV;
    bytes += streams * (isSliding ? window : cellsPerStream) * heads * perHead;
  }
  return bytes + recurrentBytes(summary, settings.slots);
}

/** A layer that is not known to be windowed counts in full. */
function isWindowed({ slidingLayers, slidingWindow, slidingWindowPattern }: GgufSummary, layer: number) {
  if (slidingLayers !== undefined) return slidingLayers[layer] ?? false;
  return slidingWindow !== undefined && isSlidingIn(slidingWindowPattern || 1, layer);
}

function slidingCells(window: number, cells: number, { slots, isUnified, uBatch }: KvSettings): number {
  return padded(Math.min(cells, window * (isUnified ? slots : 1) + uBatch));
}

function recurrentBytes({ recurrent }: GgufSummary, slots: number): number {
  return recurrent === undefined ? 0 : recurrent.layers * recurrent.elements * STATE_BYTES * slots;
}

function padded(cells: number): number {
  return Math.ceil(cells / CELL_PADDING) * CELL_PADDING;
}
