/** Memory of a record's files in an engine: the claim that admission and placement use. Pure. */

import type { Mode } from "../../src/api/engine-settings.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { Accelerator } from "../../src/api/fields/hardware.ts";
import type { MemoryClaim } from "../../src/engines/contract/claims.ts";
import { contextBeyondTraining } from "../../src/engines/llamacpp/claim/claim-notes.ts";
import { sizesOf } from "../../src/engines/llamacpp/claim/claim-settings.ts";
import { kvCacheBytes } from "../../src/engines/llamacpp/claim/kv-cache.ts";
import { engineDescription, runtimesFor } from "../../src/engines/registry.ts";
import type { QuantizationFamily } from "../catalog/quantizations.ts";
import { type CatalogRecord, perRecord } from "../catalog/record.ts";
import { summaryOf } from "../catalog/shape.ts";

/** Element type of the KV cache, by the engine's name. */
export type CacheType = string;

export interface ClaimParameters {
  readonly family: QuantizationFamily;
  readonly weightsBytes: number;
  readonly contextSize: number;
  readonly cacheType: CacheType;
  readonly accelerator: Accelerator;
}

/** Maximum number of cached contexts per model, because requests may name any number. */
const MAX_CONTEXTS = 256;

/** Claims of one record, file family, accelerator and cache type. They are linear in the weights, so each context is estimated once. */
interface KnownClaims {
  readonly perWeightByte: number;
  /** Bytes in addition to the weights, by context. */
  readonly otherBytesByContext: Map<number, number>;
}

/** An estimate lays out the buffers of a whole graph, and a fleet needs the same ones again and again. */
const claimsByRecord = perRecord(() => new Map<string, KnownClaims | undefined>());

/** Claim by context and bytes of the weights. Undefined if the record lacks shapes: nothing is guessed. */
export function claimEstimatorOf(
  record: CatalogRecord,
  kind: Omit<ClaimParameters, "contextSize" | "weightsBytes">,
): ((contextSize: number, weightsBytes: number) => number) | undefined {
  const claims = claimsOf(record, kind);
  if (claims === undefined) return undefined;
  const { perWeightByte, otherBytesByContext } = claims;
  return (contextSize, weightsBytes) => {
    let otherBytes = otherBytesByContext.get(contextSize);
    if (otherBytes === undefined) {
      otherBytes = bytesWithoutWeights(
        record,
        { ...kind, contextSize, weightsBytes: WEIGHTS },
        perWeightByte,
      );
      if (otherBytesByContext.size >= MAX_CONTEXTS) otherBytesByContext.clear();
      otherBytesByContext.set(contextSize, otherBytes);
    }
    return Math.ceil(otherBytes + perWeightByte * weightsBytes);
  };
}

function claimsOf(
  record: CatalogRecord,
  kind: Omit<ClaimParameters, "contextSize" | "weightsBytes">,
): KnownClaims | undefined {
  const byKind = claimsByRecord(record);
  const key = `${kind.family} ${kind.accelerator} ${kind.cacheType}`;
  if (byKind.has(key)) return byKind.get(key);
  const [small, large] = [WEIGHTS, 2 * WEIGHTS].map(
    (weightsBytes) => claimOfRecord(record, { ...kind, contextSize: SMALL, weightsBytes })?.claimBytes,
  );
  const claims =
    small === undefined || large === undefined
      ? undefined
      : { perWeightByte: (large - small) / WEIGHTS, otherBytesByContext: new Map<number, number>() };
  byKind.set(key, claims);
  return claims;
}

function bytesWithoutWeights(
  record: CatalogRecord,
  parameters: ClaimParameters,
  perWeightByte: number,
): number {
  const claim = claimOfRecord(record, parameters);
  return claim === undefined ? Number.POSITIVE_INFINITY : claim.claimBytes - perWeightByte * WEIGHTS;
}

/** Size for the interpolation; any number works. */
const WEIGHTS = 1e9;

function claimOfRecord(record: CatalogRecord, parameters: ClaimParameters): MemoryClaim | undefined {
  const [runtime] = runtimesFor(parameters.family, parameters.accelerator, "chat");
  const claims = runtime === undefined ? undefined : engineDescription(runtime)?.host?.claims;
  const mode: Mode = record.use_case === "embedding" ? "embedding" : "chat";
  const settings = {
    mode,
    contextSize: parameters.contextSize,
    parallelSlots: 1,
    cacheTypeCustomK: parameters.cacheType,
    cacheTypeCustomV: parameters.cacheType,
    promptCacheMiB: 0,
  };
  try {
    return claims?.estimate(summaryOf(record, parameters.weightsBytes), settings, parameters.accelerator);
  } catch (error) {
    if (error instanceof MetalbridgeError && error.code === "ClaimUnknown") return undefined;
    throw error;
  }
}

const growthByRecord = perRecord(() => new Map<CacheType, number | undefined>());

/** Growth of the KV cache per token once windows are full. Undefined if the record lacks shapes. */
export function keyValueBytesPerToken(
  record: CatalogRecord,
  cacheType: CacheType = "f16",
): number | undefined {
  const byKind = growthByRecord(record);
  if (!byKind.has(cacheType)) byKind.set(cacheType, growthPerToken(record, cacheType));
  return byKind.get(cacheType);
}

function growthPerToken(record: CatalogRecord, cacheType: CacheType): number | undefined {
  const summary = summaryOf(record, 1);
  const sizes = sizesOf({ cacheTypeCustomK: cacheType, cacheTypeCustomV: cacheType });
  const small = kvCacheBytes(summary, { ...sizes, contextSize: SMALL });
  const large = kvCacheBytes(summary, { ...sizes, contextSize: LARGE });
  return small === undefined || large === undefined ? undefined : (large - small) / (LARGE - SMALL);
}

const SMALL = 32_768;
const LARGE = 65_536;

/** A context that a service asks for, shared by its slots. */
export interface RequestedContext {
  /** Tokens; undefined if it asks for none. */
  readonly claimedContext?: number | undefined;
  readonly slots?: number | undefined;
}

/** Why the requested context is larger than the model can use; undefined if it is not. */
export function beyondTraining(
  { context_length }: CatalogRecord,
  { claimedContext, slots }: RequestedContext,
): string | undefined {
  if (claimedContext === undefined) return undefined;
  return contextBeyondTraining(
    { contextLength: context_length },
    { contextSize: claimedContext, parallelSlots: slots },
  );
}
