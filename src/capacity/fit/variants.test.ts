import fc from "fast-check";
import { expect, test } from "vitest";
import { type SizeSettings, suggestFor } from "./variants.ts";

const GIB = 1024 ** 3;
const BYTES: Readonly<Record<string, number>> = { f16: 2, q8_0: 1.0625, q4_0: 0.5625 };

/** 8 GiB of weights; 1 GiB of cache for 8,192 tokens at f16. */
function claimOf(sizes: SizeSettings): number {
  const { contextSize = 0, cacheTypeK = "f16", promptCacheMiB = 0, parallelSlots = 1 } = sizes;
  const cache = (contextSize / 8192) * GIB * ((BYTES[cacheTypeK] ?? 2) / 2);
  return 8 * GIB + cache + promptCacheMiB * 1024 ** 2 + parallelSlots * 1024 ** 2;
}

const settings: SizeSettings = { contextSize: 32_768, parallelSlots: 4, promptCacheMiB: 1024 };
const suggest = (gib: number, sizes: SizeSettings = settings) =>
  suggestFor(gib * GIB, sizes, (change) => claimOf({ ...sizes, ...change })).map(({ text }) => text);

test("every single change that is enough is named, each as small as it can be", () => {
  expect(suggest(12.5)).toEqual([
    "cacheTypeK and cacheTypeV q8_0: 11.1 GiB",
    "contextSize 28416 (now 32768): 12.5 GiB",
    "parallelSlots 3 (now 4), contextSize 24576 (now 32768): 12 GiB",
    "promptCacheMiB 0 (now 1024): 12 GiB",
  ]);
});

test("the mildest quantized cache that is enough is named", () => {
  expect(suggest(10.5, { ...settings, promptCacheMiB: 0 })[0]).toBe(
    "cacheTypeK and cacheTypeV q8_0: 10.1 GiB",
  );
  expect(suggest(9.5, { ...settings, promptCacheMiB: 0 })[0]).toBe("cacheTypeK and cacheTypeV q4_0: 9.1 GiB");
});

test("where no single change is enough, all together", () => {
  expect(suggest(8.2, { ...settings, parallelSlots: 1, contextSize: 65_536 })).toEqual([
    "contextSize 2816 (now 65536), cacheTypeK and cacheTypeV q8_0, promptCacheMiB 0 (now 1024): 8.2 GiB",
  ]);
});

test("a quantized cache is not suggested without flash attention, nor twice", () => {
  expect(suggest(12.5, { ...settings, flashAttention: false }).join()).not.toContain("cacheType");
  expect(
    suggest(9.5, { ...settings, cacheTypeK: "q8_0", cacheTypeV: "q8_0", promptCacheMiB: 0 })[0],
  ).toContain("q4_0");
});

test("suggests nothing if the weights alone are too large, or the claim cannot be estimated", () => {
  expect(suggest(7)).toEqual([]);
  expect(suggestFor(64 * GIB, settings, () => undefined)).toEqual([]);
});

test("what is suggested fits, whatever the room", () => {
  const anySizes = fc.record({
    contextSize: fc.integer({ min: 128, max: 2_097_152 }),
    parallelSlots: fc.integer({ min: 1, max: 64 }),
    promptCacheMiB: fc.integer({ min: 0, max: 65_536 }),
  });
  fc.assert(
    fc.property(anySizes, fc.double({ min: 0, max: 600, noNaN: true }), (sizes, gib) => {
      const claimWith = (change: Partial<SizeSettings>) => claimOf({ ...sizes, ...change });
      for (const { change, claimBytes } of suggestFor(gib * GIB, sizes, claimWith)) {
        expect(claimWith(change)).toBe(claimBytes);
        expect(claimBytes).toBeLessThanOrEqual(gib * GIB);
      }
    }),
  );
});
