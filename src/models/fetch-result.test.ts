import fc from "fast-check";
import { expect, test } from "vitest";
import { type Fetched, parseFetchResult, renderFetchResult } from "./fetch-result.ts";

const fetched: Fetched = {
  code: "Fetched",
  sha256: "a".repeat(64),
  sizeBytes: 1,
  file: `views/${"b".repeat(40)}/model-00001-of-00300.gguf`,
  files: Array.from(
    { length: 300 },
    (_, index) => `model-${String(index + 1).padStart(5, "0")}-of-00300.gguf`,
  ),
  gguf: {
    architecture: "llama",
    layerCount: 200,
    sizing: { headCountKVByLayer: Array.from({ length: 200 }, () => 8) },
  },
};

test("a result of many files is shortened to what a termination message holds, with the facts of the header", () => {
  const text = renderFetchResult(fetched);
  expect(new TextEncoder().encode(text).length).toBeLessThanOrEqual(4096);
  expect(parseFetchResult(text)).toEqual({ ...fetched, files: fetched.files.slice(0, 16) });
});

test("sizing is left out only where nothing else helps", () => {
  const sizing = { layerKinds: "aw".repeat(1900), headCountKVByLayer: [] };
  const parsed = parseFetchResult(renderFetchResult({ ...fetched, gguf: { architecture: "x", sizing } }));
  expect(parsed).toMatchObject({ files: ["model-00001-of-00300.gguf"], gguf: { architecture: "x" } });
  expect(parsed).not.toHaveProperty("gguf.sizing");
});

test("a long message of a failure is cut", () => {
  const text = renderFetchResult({ code: "SourceNotFound", message: "é".repeat(5000), isRetryable: false });
  expect(new TextEncoder().encode(text).length).toBeLessThanOrEqual(4096);
  expect(parseFetchResult(text)).toMatchObject({ code: "SourceNotFound" });
});

test.each([
  undefined,
  "",
  "Killed",
  "{",
  '{"code":"NoSuchCode","message":"","isRetryable":true}',
  "null",
  "[]",
])("%j is no result", (text) => {
  expect(parseFetchResult(text)).toBeUndefined();
});

test("a text that is longer than a kubelet hands on is no result", () => {
  const result = JSON.stringify({ code: "SourceNotFound", message: "", isRetryable: false });
  fc.assert(
    fc.property(fc.integer({ min: -100, max: 100_000 }), (beyond) => {
      const text = result.padStart(4096 + beyond);
      expect(parseFetchResult(text) === undefined).toBe(beyond > 0);
    }),
  );
});

test("whatever a container wrote is a result or none", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
      expect(parseFetchResult(text)).toBeUndefined();
    }),
  );
});

const names = fc.string({ unit: "binary", minLength: 1, maxLength: 1000 });

test("any result fits a termination message, and is read back from it", () => {
  const failures = fc.record({
    code: fc.constant("SourceNotFound" as const),
    isRetryable: fc.boolean(),
    message: fc.oneof(
      fc.string({ unit: "binary" }),
      // What JSON writes with two or with six characters.
      fc.constantFrom('"', "\u0000", "\ud800", "é", "x").map((one) => one.repeat(3000)),
    ),
  });
  const results = fc.record({
    code: fc.constant("Fetched" as const),
    sizeBytes: fc.maxSafeNat(),
    file: names,
    files: fc.array(names, { maxLength: 512 }),
  });
  fc.assert(
    fc.property(fc.oneof(failures, results), (result) => {
      const text = renderFetchResult(result);
      expect(new TextEncoder().encode(text).length).toBeLessThanOrEqual(4096);
      const read = parseFetchResult(text);
      if (result.code === "SourceNotFound") expect(read).toMatchObject({ isRetryable: result.isRetryable });
      expect([result.code, "FileNameNotAllowed"]).toContain(read?.code);
    }),
  );
});
