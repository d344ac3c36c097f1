import fc from "fast-check";
import { expect, test } from "vitest";
import { computeBytes } from "../../src/engines/llamacpp/claim/claim.ts";
import { applyComputeTable, COMPUTE_TABLES } from "../../src/engines/llamacpp/claim/compute/table.ts";
import { fitComputeTable } from "./compute-table.ts";

test("a straight line is found again", () => {
  const table = fitComputeTable(
    [10, 20, 80].map((size) => ({ laidOutBytes: size, printedBytes: 1.5 * size + 7 })),
    "here",
  );
  expect(table).toMatchObject({ factor: 1.5, extraBytes: 7, isMeasured: true, source: "here" });
});

test("the fit is never below a measurement, and a single size gives no fit", () => {
  const size = fc.integer({ min: 1, max: 2 ** 40 });
  fc.assert(
    fc.property(
      fc.array(fc.record({ laidOutBytes: size, printedBytes: size }), { maxLength: 9 }),
      (samples) => {
        const table = fitComputeTable(samples, "here");
        const sizes = new Set(samples.map(({ laidOutBytes }) => laidOutBytes)).size;
        expect(table === undefined).toBe(sizes < 2);
        if (table === undefined) return;
        for (const { laidOutBytes, printedBytes } of samples)
          expect(applyComputeTable(table, laidOutBytes, 0)).toBeGreaterThanOrEqual(printedBytes - 1);
      },
    ),
  );
});

test("the table for Metal never claims less than that of the CPU, and says that it was not measured", () => {
  const model = {
    layerCount: 8,
    embeddingSize: 1024,
    headCount: 16,
    headCountKV: 4,
    keyLength: 64,
    valueLength: 64,
  };
  const settings = {
    tokens: 512,
    slots: 1,
    outputs: 1,
    streams: 1,
    cellsPerStream: 8192,
    windowCells: 0,
    hasFlashAttention: true,
    keyBytes: 2,
    valueBytes: 2,
    isPooled: false,
  };
  const [cpu, metal] = [COMPUTE_TABLES.cpu, COMPUTE_TABLES.metal].map((table) =>
    computeBytes(model, settings, table),
  );
  expect(metal).toBeGreaterThan(cpu ?? 0);
  expect(COMPUTE_TABLES.metal.isMeasured).toBe(false);
});
