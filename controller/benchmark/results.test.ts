import { expect, test } from "vitest";
import type { BenchmarkResult } from "../../src/api/benchmark.ts";
import { editsOf, validForMs } from "./results.ts";

const result = (measuredAt: string, samples = [41]): BenchmarkResult => ({
  build: "b1",
  measuredAt,
  tool: "llama-bench",
  generation: { median: 41, spread: 0, samples },
  model: "hf://org/chat",
  deviceClass: "m4",
  machine: "mac-1",
  runtime: "llamacpp",
  settings: {},
});

test("only the keys of the plan change, and an entry that is up to date is not written", () => {
  const first = result("2026-11-01T00:00:00Z");
  const data = { "a-m4": JSON.stringify(first), "mine-m4": "{}", "old-m4": "{}" };
  const store = new Map([
    ["a-m4", first],
    ["b-m4", first],
  ]);
  expect(editsOf(data, store, ["old-m4", "unknown-m4"])).toEqual({
    operations: [
      { op: "remove", path: "/data/old-m4" },
      { op: "add", path: "/data/b-m4", value: JSON.stringify(first) },
    ],
    dropped: [],
  });
});

test("a full ConfigMap loses unreadable entries, then the oldest ones", () => {
  const entries = Array.from({ length: 900 }, (_, index) => {
    const text = {
      ...result(new Date(Date.UTC(2026, 0, 1) + index * 60_000).toISOString()),
      machine: "m".repeat(253),
    };
    return [`${String(index).padStart(3, "0")}-m4`, JSON.stringify(text).padEnd(1_000)] as const;
  });
  const data = { ...Object.fromEntries(entries), "mine-m4": "x".repeat(50_000) };
  const { dropped, operations } = editsOf(data, new Map([["new-m4", result("2026-11-01T00:00:00Z")]]), []);
  expect(dropped.slice(0, 2)).toEqual(["mine-m4", "000-m4"]);
  expect(dropped).not.toContain("899-m4");
  expect(operations.at(-1)).toMatchObject({ op: "add", path: "/data/new-m4" });
});

test("a result expires by its age and by its build", () => {
  const now = Date.parse("2026-11-02T00:00:00Z");
  const [current, future] = [result("2026-11-01T00:00:00Z"), result("2099-01-01T00:00:00Z")];
  const day = 86_400_000;
  expect(validForMs(current, new Set(["b1", "b2"]), 2 * day, now)).toBe(day);
  expect(validForMs(current, new Set(["b2"]), 2 * day, now)).toBe(0);
  expect(validForMs(current, undefined, day, now)).toBe(0);
  expect(validForMs(future, undefined, day, now)).toBe(day);
});
