import fc from "fast-check";
import { expect, test } from "vitest";
import type { EngineSettings, MemorySetting } from "../../../api/engine-settings.ts";
import { ggufSchema, RECURRENT_KINDS } from "../../../api/fields/gguf.ts";
import type { GgufSummary } from "../../../models/gguf/summary.ts";
import type { MemoryClaim } from "../../contract/claims.ts";
import { estimateClaim } from "./claim.ts";
import type { ClaimSettings } from "./claim-settings.ts";

const MIB = 1 << 20;

/** The model of the measured buffers: width 1024, 8 layers, 16 heads of which 4 for keys and values, vocabulary 32,000. */
const measured: GgufSummary = {
  layerCount: 8,
  embeddingSize: 1024,
  headCount: 16,
  headCountKV: 4,
  keyLength: 64,
  valueLength: 64,
  feedForwardLength: 2816,
  vocabularySize: 32_000,
  weightsBytes: 297 * MIB,
};

const llama8b: GgufSummary = {
  layerCount: 32,
  embeddingSize: 4096,
  headCount: 32,
  headCountKV: 8,
  keyLength: 128,
  valueLength: 128,
  weightsBytes: 4_920_000_000,
};

test.each<[string, ClaimSettings, number]>([
  ["8,192 tokens in 4 slots", { contextSize: 8192, parallelSlots: 4 }, 64],
  ["the same, unified", { contextSize: 8192, parallelSlots: 4, kvUnified: true }, 64],
  ["65,536 tokens, q8_0", { contextSize: 65_536, cacheTypeK: "q8_0", cacheTypeV: "q8_0" }, 272],
  ["8,192 tokens, q4_0 and q8_0", { contextSize: 8192, cacheTypeK: "q4_0", cacheTypeV: "q8_0" }, 9 + 17],
])("KV cache of %s", (_name, settings, mib) => {
  expect(estimateClaim(measured, settings).kvBytes / MIB).toBe(mib);
});

test("grouped heads divide the cache: Llama-3.1-8B with 131,072 tokens takes 16 GiB", () => {
  expect(estimateClaim(llama8b, { contextSize: 131_072 }).kvBytes).toBe(16 * 1024 * MIB);
});

test.each<[ClaimSettings, number]>([
  [{ contextSize: 8192, parallelSlots: 4 }, 28.52],
  [{ contextSize: 8192, parallelSlots: 4, kvUnified: true }, 34.52],
  [{ contextSize: 65_536 }, 90.55],
  [{ contextSize: 8192, uBatchSize: 2048 }, 138.07],
  [{ contextSize: 8192, parallelSlots: 4, flashAttention: false }, 81.01],
  [{ contextSize: 65_536, flashAttention: false }, 2189.01],
])("compute buffers for %j are %f MiB, as the engine printed", (settings, mib) => {
  const { computeBytes } = estimateClaim(measured, settings);
  expect(Math.abs(computeBytes / MIB / mib - 1)).toBeLessThan(0.01);
});

test("the output buffer has one row of logits per slot", () => {
  expect(estimateClaim(measured, { parallelSlots: 4 }).outputBytes / MIB).toBeCloseTo(0.49, 2);
});

test("windowed layers keep their window and one batch, the others everything", () => {
  const windowed = {
    ...measured,
    slidingWindow: 1024,
    sizing: { layerKinds: "wwwwwwwa" },
  };
  const perCell = 4 * 128 * 2;
  expect(estimateClaim(windowed, { contextSize: 65_536 }).kvBytes).toBe(perCell * (7 * 1536 + 65_536));
  expect(estimateClaim(windowed, { contextSize: 65_536, parallelSlots: 4, kvUnified: true }).kvBytes).toBe(
    perCell * (7 * 4608 + 65_536),
  );
});

test("layers without attention cost their state only", () => {
  const hybrid = {
    ...measured,
    sizing: {
      layerKinds: "rrrarrra",
      headCountKVByLayer: [0, 0, 0, 16, 0, 0, 0, 16],
      recurrent: {
        kind: "mamba2" as const,
        stateElements: 100_000,
        innerSize: 2048,
        stateSize: 48,
        groups: 1,
        kernel: 4,
        rank: 32,
      },
    },
  };
  expect(estimateClaim(hybrid, { contextSize: 4096, parallelSlots: 2 }).kvBytes).toBe(
    2 * 4096 * 16 * 128 * 2 + 6 * 100_000 * 4 * 2,
  );
});

test("the prompt cache counts for chat, and not for embedding and rerank", () => {
  expect(estimateClaim(measured, {}).promptCacheBytes).toBe(1024 * MIB);
  expect(estimateClaim(measured, { promptCacheMiB: 0 }).promptCacheBytes).toBe(0);
  expect(estimateClaim(measured, { mode: "embedding" }).promptCacheBytes).toBe(0);
  expect(estimateClaim(measured, { mode: "rerank", promptCacheMiB: 512 }).promptCacheBytes).toBe(0);
});

test("projector and draft model are part of the sum", () => {
  const alone = estimateClaim(measured, { contextSize: 4096 });
  const all = estimateClaim(measured, { contextSize: 4096, projectorSizeBytes: 800, draft: measured });
  expect(all.projectorBytes).toBe(1000);
  expect(all.draftBytes).toBe(alone.weightsBytes + alone.kvBytes + alone.computeBytes + alone.outputBytes);
  const { claimBytes, ...parts } = all;
  expect(claimBytes).toBe(Object.values(parts).reduce((sum, part) => sum + part, 0));
});

test("LoRA adapters are part of the sum", () => {
  const { claimBytes } = estimateClaim(measured, {});
  const adapted = estimateClaim(measured, { loraSizeBytes: 3 * MIB });
  expect([adapted.loraBytes, adapted.claimBytes - claimBytes]).toEqual([3 * MIB, 3 * MIB]);
});

test("what the header does not tell is never guessed to be nothing", () => {
  expect(() => estimateClaim({ ...measured, layerCount: undefined }, {})).toThrow(/layers/);
  expect(() => estimateClaim({ ...measured, weightsBytes: undefined }, {})).toThrow(/size of the weights/);
});

test("a coarse summary from status claims at least as much as the exact one", () => {
  const { feedForwardLength: _, vocabularySize: __, ...coarse } = measured;
  expect(estimateClaim(coarse, {}).claimBytes).toBeGreaterThanOrEqual(estimateClaim(measured, {}).claimBytes);
});

test("what status carries is enough for the exact claim of a model with windowed layers", () => {
  const exact = { ...measured, slidingWindow: 1024, sizing: { layerKinds: "wwwwwaww" } };
  const settings = { contextSize: 65_536, parallelSlots: 2 };
  const { weightsBytes } = measured;
  const fromStatus = { ...ggufSchema.parse(exact), weightsBytes };
  expect(estimateClaim(fromStatus, settings)).toEqual(estimateClaim(exact, settings));
  expect(estimateClaim(fromStatus, settings).kvBytes).toBeLessThan(estimateClaim(measured, settings).kvBytes);
});

/** Whatever a header may say, real or senseless. */
const anySummary = () => {
  const size = fc.oneof(fc.nat(), fc.maxSafeNat());
  return fc.record({
    layerCount: fc.integer({ min: 1, max: 4096 }),
    embeddingSize: size,
    headCount: size,
    headCountKV: size,
    keyLength: size,
    valueLength: size,
    weightsBytes: size,
    feedForwardLength: size,
    vocabularySize: size,
    expertCount: size,
    slidingWindow: size,
    sizing: fc.record({
      layerKinds: fc.string({ unit: fc.constantFrom("a", "w", "r", "b", "n"), maxLength: 64 }),
      headCountKVByLayer: fc.array(size, { maxLength: 64 }),
      expertsUsed: size,
      expertWidth: size,
      sharedExpertWidth: size,
      recurrent: fc.option(
        fc.record({
          kind: fc.constantFrom(...RECURRENT_KINDS),
          stateElements: size,
          innerSize: size,
          stateSize: size,
          groups: size,
          kernel: size,
          rank: size,
        }),
        { nil: undefined },
      ),
    }),
  });
};

test("whatever the header says, a claim is a safe whole number, and the parts are never more than the sum", () => {
  fc.assert(
    fc.property(
      anySummary(),
      fc.integer({ min: 1, max: 2_097_152 }),
      fc.integer({ min: 1, max: 100_000 }),
      fc.boolean(),
      fc.boolean(),
      (model, contextSize, parallelSlots, kvUnified, flashAttention) => {
        const claim = estimateClaim(model, { contextSize, parallelSlots, kvUnified, flashAttention });
        const { claimBytes, ...parts } = claim;
        for (const bytes of Object.values(claim))
          expect(Number.isSafeInteger(bytes) && bytes >= 0).toBe(true);
        for (const bytes of Object.values(parts)) expect(bytes).toBeLessThanOrEqual(claimBytes);
      },
    ),
    { numRuns: 300 },
  );
});

/** Shapes that models really have. */
const realSummary = fc
  .record({
    layerCount: fc.integer({ min: 1, max: 80 }),
    headCount: fc.constantFrom(8, 16, 32, 64),
    groupSize: fc.constantFrom(1, 2, 4, 8),
    headSize: fc.constantFrom(64, 128, 256),
    embeddingSize: fc.constantFrom(1024, 2048, 4096, 8192),
    feedForwardLength: fc.constantFrom(2816, 5632, 14_336, 28_672),
    vocabularySize: fc.constantFrom(32_000, 128_256, 262_144),
    slidingWindow: fc.constantFrom(undefined, 512, 4096),
    slidingWindowPattern: fc.constantFrom(2, 6),
  })
  .map(({ groupSize, headSize, ...rest }) => ({
    ...rest,
    headCountKV: rest.headCount / groupSize,
    keyLength: headSize,
    valueLength: headSize,
    weightsBytes: 4_000_000_000,
  }));

const realSettings = fc.record({
  contextSize: fc.integer({ min: 128, max: 262_144 }),
  parallelSlots: fc.integer({ min: 1, max: 64 }),
  kvUnified: fc.boolean(),
  flashAttention: fc.boolean(),
  uBatchSize: fc.constantFrom(128, 512, 1024),
  cacheTypeK: fc.constantFrom("f16" as const, "q8_0" as const, "q4_0" as const),
});

test.each<
  [string, (settings: { contextSize: number; parallelSlots: number; uBatchSize: number }) => ClaimSettings]
>([
  ["context", ({ contextSize }) => ({ contextSize: 2 * contextSize })],
  [
    "slots of the same context each",
    ({ contextSize, parallelSlots }) => ({ contextSize: 2 * contextSize, parallelSlots: 2 * parallelSlots }),
  ],
  ["micro-batch", ({ uBatchSize }) => ({ uBatchSize: 2 * uBatchSize })],
])("more %s never takes less", (_what, grown) => {
  fc.assert(
    fc.property(realSummary, realSettings, (model, settings) => {
      const less = estimateClaim(model, settings);
      const more = estimateClaim(model, { ...settings, ...grown(settings) });
      const withoutCompute = (claim: MemoryClaim) => claim.claimBytes - claim.computeBytes;
      expect(withoutCompute(more)).toBeGreaterThanOrEqual(withoutCompute(less));
      // The engine's allocator now and then packs a larger computation better, as the next test shows.
      expect(more.computeBytes).toBeGreaterThanOrEqual(0.5 * less.computeBytes);
    }),
    { numRuns: 500 },
  );
});

test("where the engine's allocator packs more context better, the estimate does too", () => {
  const model = { ...measured, layerCount: 1, embeddingSize: 4096, headCount: 8, headCountKV: 1 };
  const mib = (contextSize: number) =>
    estimateClaim(model, {
      contextSize,
      parallelSlots: 43,
      kvUnified: true,
      flashAttention: false,
      uBatchSize: 128,
    }).computeBytes / MIB;
  // As the engine printed for this model.
  expect([256, 512, 1024].map(mib).map((size) => size.toFixed(2))).toEqual(["15.52", "10.40", "14.68"]);
});

test.each<[string, ClaimSettings]>([
  ["contextSize is NaN", { contextSize: Number.NaN }],
  ["contextSize is 0", { contextSize: 0 }],
  ["parallelSlots is -1", { parallelSlots: -1 }],
  ["uBatchSize is 1.5", { uBatchSize: 1.5 }],
  ["promptCacheMiB is Infinity", { promptCacheMiB: Number.POSITIVE_INFINITY }],
])("no claim is made from nonsense: %s", (message, settings) => {
  expect(() => estimateClaim(measured, settings)).toThrow(message);
});

test("no layers are no model", () => {
  expect(() => estimateClaim({ ...measured, layerCount: 0 }, {})).toThrow(/layers/);
});

test("absurd head counts end at the largest safe number, which no host has", () => {
  const absurd = { ...measured, headCount: 2 ** 50, headCountKV: 2 ** 50 };
  expect(estimateClaim(absurd, { contextSize: 2_097_152 }).claimBytes).toBe(Number.MAX_SAFE_INTEGER);
});

test("metadataOverrides change the claim as they change what the engine allocates", () => {
  const model = { ...measured, architecture: "llama", sizing: { headCountKVByLayer: Array(8).fill(4) } };
  const claimWith = (...metadataOverrides: string[]) =>
    estimateClaim(model, { contextSize: 8192, metadataOverrides });
  const plain = claimWith("llama.attention.head_count_kv=str:2", "other.attention.head_count_kv=int:2");
  expect(plain).toEqual(claimWith());
  expect(claimWith("llama.attention.head_count_kv=int:8").kvBytes).toBe(2 * plain.kvBytes);
  expect(claimWith("llama.vocab_size=int:64000").outputBytes).toBe(2 * plain.outputBytes);
});

/** A value of each setting that is said to change the memory. */
const CHANGES: { readonly [Name in MemorySetting]: NonNullable<EngineSettings[Name]> } = {
  contextSize: 32_768,
  parallelSlots: 2,
  kvUnified: true,
  promptCacheMiB: 0,
  metadataOverrides: ["llama.vocab_size=int:64000"],
  cacheTypeCustomK: "q8_0",
  cacheTypeCustomV: "q8_0",
  cacheTypeK: "q8_0",
  cacheTypeV: "q8_0",
  flashAttention: false,
  batchSize: 256,
  uBatchSize: 256,
};

test.each(Object.entries(CHANGES))("%s is part of the estimate", (name, value) => {
  const model = { ...measured, architecture: "llama", slidingWindow: 1024, sizing: { layerKinds: "wa" } };
  const settings = { contextSize: 65_536, parallelSlots: 4 };
  const { claimBytes } = estimateClaim(model, settings);
  expect(estimateClaim(model, { ...settings, [name]: value }).claimBytes).not.toBe(claimBytes);
});
