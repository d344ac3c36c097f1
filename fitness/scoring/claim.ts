/** Memory of a record's files in an engine: the claim that admission and placement use. Pure. */

import type { Mode } from "../../src/api/engine-settings.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { Accelerator } from "../../src/api/fields/hardware.ts";
import type { MemoryClaim } from "../../src/engines/contract/claims.ts";
import { kvCacheBytes } from "../../src/engines/llamacpp/claim/kv-cache.ts";
import { engineDescription, runtimesFor } from "../../src/engines/registry.ts";
import type { QuantizationFamily } from "../catalog/quantizations.ts";
import type { CatalogRecord } from "../catalog/record.ts";
import { summaryOf } from "../catalog/shape.ts";

/** As the engine names the element types of its cache. */
export type CacheType = string;

export interface ClaimParameters {
  readonly family: QuantizationFamily;
  readonly weightsBytes: number;
  readonly contextSize: number;
  readonly cacheType: CacheType;
  readonly accelerator: Accelerator;
}

/** Contexts of a model whose claim is remembered: any number can be asked for. */
const MAX_CONTEXTS = 256;

/** Of one record, family of files, accelerator and type of cache: linear in the weights, so that each context is estimated once. */
interface KnownClaims {
  readonly perWeightByte: number;
  /** By context: what comes on top of the weights. */
  readonly beside: Map<number, number>;
}

/** An estimate lays out the buffers of a whole graph, and a fleet asks for the same ones over and over. */
const known = new WeakMap<CatalogRecord, Map<string, KnownClaims | undefined>>();

/** Bytes by context and bytes of the weights; undefined where the record has too few shapes: nothing is guessed. */
export function claimEstimatorOf(
  record: CatalogRecord,
  kind: Omit<ClaimParameters, "contextSize" | "weightsBytes">,
): ((contextSize: number, weightsBytes: number) => number) | undefined {
  const claims = knownClaims(record, kind);
  if (claims === undefined) return undefined;
  const { perWeightByte, beside } = claims;
  return (contextSize, weightsBytes) => {
    let rest = beside.get(contextSize);
    if (rest === undefined) {
      rest = besideWeights(record, { ...kind, contextSize, weightsBytes: WEIGHTS }, perWeightByte);
      if (beside.size >= MAX_CONTEXTS) beside.clear();
      beside.set(contextSize, rest);
    }
    return Math.ceil(rest + perWeightByte * weightsBytes);
  };
}

function knownClaims(
  record: CatalogRecord,
  kind: Omit<ClaimParameters, "contextSize" | "weightsBytes">,
): KnownClaims | undefined {
  const ofRecord = known.get(record) ?? new Map<string, KnownClaims | undefined>();
  known.set(record, ofRecord);
  const key = `${kind.family} ${kind.accelerator} ${kind.cacheType}`;
  if (ofRecord.has(key)) return ofRecord.get(key);
  const [small, large] = [WEIGHTS, 2 * WEIGHTS].map(
    (weightsBytes) => claimOfRecord(record, { ...kind, contextSize: SMALL, weightsBytes })?.claimBytes,
  );
  const claims =
    small === undefined || large === undefined
      ? undefined
      : { perWeightByte: (large - small) / WEIGHTS, beside: new Map<number, number>() };
  ofRecord.set(key, claims);
  return claims;
}

function besideWeights(record: CatalogRecord, wish: ClaimParameters, perWeightByte: number): number {
  const claim = claimOfRecord(record, wish);
  return claim === undefined ? Number.POSITIVE_INFINITY : claim.claimBytes - perWeightByte * WEIGHTS;
}

/** Any number of bytes. */
const WEIGHTS = 1e9;

function claimOfRecord(record: CatalogRecord, wish: ClaimParameters): MemoryClaim | undefined {
  const [runtime] = runtimesFor(wish.family, wish.accelerator, "chat");
  const claims = runtime === undefined ? undefined : engineDescription(runtime)?.host?.claims;
  const mode: Mode = record.use_case === "embedding" ? "embedding" : "chat";
  const settings = {
    mode,
    contextSize: wish.contextSize,
    parallelSlots: 1,
    cacheTypeCustomK: wish.cacheType,
    cacheTypeCustomV: wish.cacheType,
    promptCacheMiB: 0,
  };
  try {
    return claims?.estimate(summaryOf(record, wish.weightsBytes), settings, wish.accelerator);
  } catch (error) {
    if (error instanceof MetalbridgeError && error.code === "ClaimUnknown") return undefined;
    throw error;
  }
}

const knownGrowth = new WeakMap<CatalogRecord, Map<CacheType, number | undefined>>();

/** What the KV cache grows by for each token, once windows are full; undefined where the shapes do not tell. */
export function keyValueBytesPerToken(
  record: CatalogRecord,
  cacheType: CacheType = "f16",
): number | undefined {
  const ofRecord = knownGrowth.get(record) ?? new Map<CacheType, number | undefined>();
  knownGrowth.set(record, ofRecord);
  if (!ofRecord.has(cacheType)) ofRecord.set(cacheType, growthPerToken(record, cacheType));
  return ofRecord.get(cacheType);
}

function growthPerToken(record: CatalogRecord, cacheType: CacheType): number | undefined {
  const summary = summaryOf(record, 1);
  const sizes = { slots: 1, isUnified: false, typeK: cacheType, typeV: cacheType, uBatch: 512 };
  const small = kvCacheBytes(summary, { ...sizes, contextSize: SMALL });
  const large = kvCacheBytes(summary, { ...sizes, contextSize: LARGE });
  return small === undefined || large === undefined ? undefined : (large - small) / (LARGE - SMALL);
}

const SMALL = 32_768;
const LARGE = 65_536;
