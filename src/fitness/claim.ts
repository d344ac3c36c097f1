/** Memory of a record's files in an engine: the claim that admission and placement use. Pure. */

import type { Mode } from "../api/engine-settings.ts";
import { MetalbridgeError } from "../api/errors.ts";
import type { Accelerator } from "../api/fields/hardware.ts";
import type { MemoryClaim } from "../engines/claims.ts";
import { kvCacheBytes } from "../engines/llamacpp/claim/kv-cache.ts";
import { runtimeEntry, runtimesFor } from "../engines/registry.ts";
import type { CatalogRecord } from "./catalog/record.ts";
import { summaryOf } from "./catalog/shape.ts";
import type { Family } from "./quantizations.ts";

/** As the engine names the element types of its cache. */
export type CacheType = string;

export interface ClaimWish {
  readonly family: Family;
  readonly weightsBytes: number;
  readonly contextSize: number;
  readonly cacheType: CacheType;
  readonly accelerator: Accelerator;
}

/** Undefined where the record has too few shapes: nothing is guessed. */
export function claimOfRecord(record: CatalogRecord, wish: ClaimWish): MemoryClaim | undefined {
  const [runtime] = runtimesFor(wish.family, wish.accelerator, "chat");
  const claims = runtime === undefined ? undefined : runtimeEntry(runtime)?.claims;
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

/** What the KV cache grows by for each token, once windows are full; undefined where the shapes do not tell. */
export function keyValueBytesPerToken(
  record: CatalogRecord,
  cacheType: CacheType = "f16",
): number | undefined {
  const summary = summaryOf(record, 1);
  const sizes = { slots: 1, isUnified: false, typeK: cacheType, typeV: cacheType, uBatch: 512 };
  const small = kvCacheBytes(summary, { ...sizes, contextSize: SMALL });
  const large = kvCacheBytes(summary, { ...sizes, contextSize: LARGE });
  return small === undefined || large === undefined ? undefined : (large - small) / (LARGE - SMALL);
}

const SMALL = 32_768;
const LARGE = 65_536;
