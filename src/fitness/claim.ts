/** Memory of a record's files in an engine: the claim that admission and placement use. Pure. */

import type { Mode } from "../api/engine-settings.ts";
import { MetalbridgeError } from "../api/errors.ts";
import type { Accelerator } from "../api/fields/hardware.ts";
import type { MemoryClaim } from "../engines/claims.ts";
import { DEFAULT_ACCELERATOR, runtimeEntry, runtimesFor } from "../engines/registry.ts";
import type { CatalogRecord } from "./catalog/record.ts";
import { summaryOf } from "./catalog/shape.ts";
import type { Family } from "./quantizations.ts";

export const CACHE_TYPES = ["f16", "q8_0", "q4_0"] as const;
export type CacheType = (typeof CACHE_TYPES)[number];

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
    cacheTypeK: wish.cacheType,
    cacheTypeV: wish.cacheType,
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
  const kv = (contextSize: number) =>
    claimOfRecord(record, {
      ...{ family: "gguf", weightsBytes: 1, accelerator: DEFAULT_ACCELERATOR },
      ...{ contextSize, cacheType },
    })?.kvBytes;
  const small = kv(SMALL);
  const large = kv(LARGE);
  return small === undefined || large === undefined ? undefined : (large - small) / (LARGE - SMALL);
}

const SMALL = 32_768;
const LARGE = 65_536;
