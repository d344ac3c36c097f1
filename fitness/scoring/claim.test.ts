import { readFileSync } from "node:fs";
import fc from "fast-check";
import { expect, test } from "vitest";
import { readCatalog } from "../catalog/record.ts";
import { claimEstimatorOf } from "./claim.ts";

const { records } = readCatalog(readFileSync("catalog/models.jsonl", "utf8"));

test("claims of a model are cached for a limited number of contexts", () => {
  let reads = 0;
  const [first] = records;
  if (first === undefined) throw new Error("the catalog is empty");
  const record = {
    ...first,
    get num_hidden_layers() {
      reads += 1;
      return first.num_hidden_layers;
    },
  };
  const claim = claimEstimatorOf(record, { family: "gguf", accelerator: "metal", cacheType: "f16" });
  const readsFor = (contextSize: number): number => {
    const before = reads;
    claim?.(contextSize, 1e9);
    return reads - before;
  };
  for (let context = 1; context <= 256; context += 1) expect(readsFor(context)).toBeGreaterThan(0);
  expect([readsFor(1), readsFor(256)]).toEqual([0, 0]);
  expect(readsFor(257)).toBeGreaterThan(0);
  expect(readsFor(1)).toBeGreaterThan(0);
});

test("a cached claim equals a fresh one for any sequence of contexts", () => {
  const [first] = records;
  if (first === undefined) throw new Error("the catalog is empty");
  const kind = { family: "gguf", accelerator: "metal", cacheType: "f16" } as const;
  const claim = claimEstimatorOf({ ...first }, kind);
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 600 }), { maxLength: 60, size: "max" }), (contexts) => {
      for (const context of contexts) claim?.(context, 1e9);
      const [last = 1] = contexts;
      expect(claim?.(last, 1e9)).toBe(claimEstimatorOf({ ...first }, kind)?.(last, 1e9));
    }),
    { numRuns: 30 },
  );
});
