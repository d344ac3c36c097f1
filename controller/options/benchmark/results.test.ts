import { expect, test } from "vitest";
import type { BenchmarkResult } from "../../../src/api/benchmark.ts";
import { modelSchema } from "../../../src/api/model.ts";
import { checkedResult, editsOf, roomIn, validForMs } from "./results.ts";
import type { Target } from "./targets.ts";

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
  expect(editsOf(data, store, ["old-m4", "unknown-m4"], () => true)).toEqual({
    operations: [
      { op: "remove", path: "/data/old-m4" },
      { op: "add", path: "/data/b-m4", value: JSON.stringify(first) },
    ],
    dropped: [],
  });
});

test("a full ConfigMap loses unreadable entries, then those without a target, then the oldest ones", () => {
  const entries = Array.from({ length: 900 }, (_, index) => {
    const text = {
      ...result(new Date(Date.UTC(2026, 0, 1) + index * 60_000).toISOString()),
      machine: "m".repeat(253),
    };
    return [`${String(index).padStart(3, "0")}-m4`, JSON.stringify(text).padEnd(1_000)] as const;
  });
  const data = { ...Object.fromEntries(entries), "mine-m4": "x".repeat(50_000) };
  const store = new Map([["new-m4", result("2026-11-01T00:00:00Z")]]);
  const { dropped, operations } = editsOf(data, store, [], (key) => key !== "899-m4");
  expect(dropped.slice(0, 3)).toEqual(["mine-m4", "899-m4", "000-m4"]);
  expect(dropped).not.toContain("898-m4");
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

test("only targets take room in the ConfigMap", () => {
  const long = { ...result("2026-11-01T00:00:00Z"), model: "m".repeat(2_000) };
  const entries = Array.from({ length: 300 }, (_, index) => [`${index}-m4`, long] as const);
  const table = { results: new Map(entries), dropped: [] };
  expect(roomIn(table, new Map())).toBe(225);
  expect(roomIn(table, table.results)).toBeLessThan(80);
});

test("figures of a host are rounded, as those of a Job are", () => {
  const measured = {
    ...result("2026-11-01T00:00:00Z"),
    generation: { median: 41.123456789, spread: 0, samples: [41.123456789] },
  };
  const target = {
    key: "a-m4",
    deviceClass: "m4",
    model: modelSchema.parse({ metadata: { name: "chat" }, spec: { source: "hf://org/chat" } }),
    subject: { content: "c", runtime: "llamacpp", settings: {} },
  } as unknown as Target;
  expect(checkedResult(target, "mac-1", measured, 0)?.generation).toEqual({
    median: 41.123,
    spread: 0,
    samples: [41.123],
  });
});
