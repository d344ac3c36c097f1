import fc from "fast-check";
import { expect, test } from "vitest";
import { boundedReport, type NodeReport, readNodeReport } from "./node-report.ts";

const NOTHING: NodeReport = { cpu: {}, gpus: [], runtimes: [], models: [], leftOut: [] };
const isKnown = (report: NodeReport) => readNodeReport(JSON.stringify(boundedReport(report))).at === "known";
const sizes = [-1, 0, 0.5, 2 ** 46, 2 ** 46 + 1, 2 ** 60, Number.MAX_VALUE, Number.NaN];
const long = ["\u0000", "\ud83d\ude00", "\ud800", '"'].map((unit) => unit.repeat(600));
const text = fc.oneof(fc.string({ unit: "binary", minLength: 1 }), fc.constantFrom(...long));
const many = { size: "max" } as const;

const reports: fc.Arbitrary<NodeReport> = fc.record({
  cpu: fc.record({ name: text, cores: fc.integer({ min: 1, max: 4096 }) }),
  gpus: fc.constant([]),
  runtimes: fc.array(fc.record({ name: text, version: text }), { ...many, maxLength: 40 }),
  models: fc.array(
    fc.record({
      name: text,
      runtime: fc.constantFrom("ollama", "llamacpp"),
      sizeBytes: fc.constantFrom(...sizes),
    }),
    { ...many, maxLength: 300 },
  ),
  leftOut: fc.array(text, { ...many, maxLength: 40 }),
});

test("whatever is found on a machine is a report that can be read once it is bounded", () => {
  fc.assert(fc.property(reports, isKnown), { numRuns: 50 });
});

test("a size that no model has is left out, and its model is not", () => {
  const models = sizes.map((sizeBytes, at) => ({ name: `${at}.gguf`, runtime: "llamacpp", sizeBytes }));
  const { models: kept } = boundedReport({ ...NOTHING, models });
  expect(kept.map(({ name }) => name)).toEqual(models.map(({ name }) => name));
  expect(kept.flatMap(({ sizeBytes }) => sizeBytes ?? [])).toEqual([0, 2 ** 46]);
});

test("names that JSON writes longer than they are do not make a report too long", () => {
  const name = "\u0001".repeat(256);
  const gpu = { vendor: "amd", name, count: 1, unified: false } as const;
  const full: NodeReport = {
    cpu: { name },
    gpus: Array.from({ length: 64 }, () => gpu),
    runtimes: Array.from({ length: 32 }, () => ({ name, version: name })),
    models: Array.from({ length: 256 }, () => ({ name, runtime: "llamacpp", sizeBytes: 1 })),
    leftOut: Array.from({ length: 32 }, () => name),
  };
  expect(isKnown(full)).toBe(true);
  const { models, leftOut } = boundedReport({ ...full, gpus: [], runtimes: [], leftOut: [] });
  expect(models.length).toBeGreaterThan(0);
  expect(leftOut).toEqual([`${256 - models.length} more installed models`]);
});
