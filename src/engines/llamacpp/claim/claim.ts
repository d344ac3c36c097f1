/** Estimates the memory of an engine before it is started. Admission and placement use the sum. */
import { MetalbridgeError } from "../../../api/errors.ts";
import type { GgufSummary } from "../../../models/gguf/summary.ts";
import type { BufferLayout, MemoryClaim } from "../../contract/claims.ts";
import { type ClaimSettings, promptCacheMiB, sizesOf } from "./claim-settings.ts";
import { computeBytes, outputBytes } from "./compute/compute.ts";
import { COMPUTE_TABLES, type ComputeTable } from "./compute/table.ts";
import { elementBytes, kvCacheBytes, kvShape } from "./kv-cache.ts";
import { withOverrides } from "./overrides.ts";

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
  const model = engineBytes(overridden, settings, cacheTypes(settings), table);
  const draft =
    settings.draft === undefined
      ? undefined
      : engineBytes(settings.draft, { ...settings, speculativeDecoding: undefined }, F16, table);
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
export function layOut(summary: GgufSummary, settings: ClaimSettings): BufferLayout {
  const overridden = withOverrides(summary, settings.metadataOverrides);
  const { compute: model } = engineBytes(overridden, settings, cacheTypes(settings), AS_LAID_OUT);
  if (settings.draft === undefined) return { model };
  const alone = { ...settings, speculativeDecoding: undefined };
  return { model, draft: engineBytes(settings.draft, alone, F16, AS_LAID_OUT).compute };
}

interface CacheTypes {
  readonly k: string;
  readonly v: string;
}
const AS_LAID_OUT: ComputeTable = { source: "", factor: 1, inputCopies: 0, extraBytes: 0, isMeasured: true };
const F16: CacheTypes = { k: "f16", v: "f16" };

function cacheTypes(settings: ClaimSettings): CacheTypes {
  return {
    k: settings.cacheTypeCustomK ?? settings.cacheTypeK ?? "f16",
    v: settings.cacheTypeCustomV ?? settings.cacheTypeV ?? "f16",
  };
}

function engineBytes(summary: GgufSummary, settings: ClaimSettings, types: CacheTypes, table: ComputeTable) {
  const { slots, contextSize, uBatch, isUnified, isPooled, outputs, hasFlashAttention } = sizesOf(settings);
  const kvSettings = { contextSize, slots, isUnified, typeK: types.k, typeV: types.v, uBatch };
  const kv = kvCacheBytes(summary, kvSettings);
  if (kv === undefined) throw unknown("layers, key-value heads or head sizes");
  if (summary.weightsBytes === undefined) throw unknown("the size of the weights");
  const cells = kvShape(kvSettings, summary.slidingWindow);
  const tokens = Math.ceil(Math.min(contextSize, uBatch) / slots) * slots;
  const compute = {
    tokens,
    slots,
    ...cells,
    hasFlashAttention,
    keyBytes: elementBytes(types.k),
    valueBytes: elementBytes(types.v),
    outputs: Math.min(outputs, tokens),
    isPooled,
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
