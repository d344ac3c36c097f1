import { expect, test } from "vitest";
import type { BenchmarkResult } from "../../api/benchmark.ts";
import { benchmarkKey, readBenchmarks, resultFor } from "./table.ts";

const subject = {
  content: "c0ffee",
  runtime: "llamacpp",
  settings: { cacheTypeK: "q8_0", gpuLayers: "99" },
} as const;
const key = benchmarkKey(subject, "nvidia-l40s");
const result: BenchmarkResult = {
  model: "hf://org/model",
  deviceClass: "nvidia-l40s",
  machine: "gpu-1",
  runtime: "llamacpp",
  build: "b9999",
  settings: {},
  measuredAt: "2026-11-26T10:00:00Z",
  tool: "llama-bench",
  generation: { median: 41, spread: 0.02, samples: [41, 41.4, 40.6] },
};

test("a result is found by content, runtime, settings in any order, and class", () => {
  const table = readBenchmarks({ data: { [key]: JSON.stringify(result) } });
  const reordered = { ...subject, settings: { gpuLayers: "99", cacheTypeK: "q8_0" } };
  expect(resultFor(table, reordered, "nvidia-l40s")).toEqual(result);
  expect(resultFor(table, { ...subject, content: "other" }, "nvidia-l40s")).toBeUndefined();
  expect(resultFor(table, subject, "nvidia-l4")).toBeUndefined();
  expect(key).toMatch(/^[-._a-zA-Z0-9]+$/);
});

test.each<[string, string, string]>([
  ["is not JSON", key, "{"],
  ["generation: ", key, JSON.stringify({ ...result, generation: undefined })],
  ["-1 tokens", key, JSON.stringify({ ...result, generation: { ...result.generation, median: -1 } })],
  ["0 tokens", key, JSON.stringify({ ...result, generation: { ...result.generation, median: 0 } })],
  ["1000000 tokens", key, JSON.stringify({ ...result, generation: { ...result.generation, median: 1e6 } })],
  [
    "its runs differ by 429%",
    key,
    JSON.stringify({ ...result, generation: { ...result.generation, spread: 4.29 } }),
  ],
  ["is of device class", "mine", JSON.stringify(result)],
])("an edited entry is dropped with a reason that starts with %s", (why, name, text) => {
  const { results, dropped } = readBenchmarks({
    data: { [name]: text, [key.replace("nvidia", "x-nvidia")]: JSON.stringify(result) },
  });
  expect(results.size).toBe(1);
  expect(dropped).toMatchObject([{ key: name }]);
  if (why !== "-1 tokens") expect(dropped[0]?.why).toContain(why.trim());
});
