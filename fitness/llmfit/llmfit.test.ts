import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { type CatalogRecord, categoryOf, readCatalog } from "../catalog/record.ts";
import { bandwidthOf } from "../scoring/gpus.ts";
import { llmfitRow, memoryGb, tokensPerSecond } from "./fit.ts";
import type { LlmfitSystem } from "./system.ts";
import { quantizationRow } from "./tables.ts";

/** Numbers printed by llmfit 1.1.10. Run modes and levels that it printed for no such machine follow its documented rules. */
const now = Date.UTC(2026, 6, 1);
const { records } = readCatalog(readFileSync("catalog/models.jsonl", "utf8"));
const record = (name: string, more: object = {}): CatalogRecord => {
  const found = records.find((one) => one.name === name);
  if (found === undefined) throw new Error(name);
  return { ...found, ...more };
};
const mac = (chip: string, vramGb: number): LlmfitSystem => ({
  availableRamGb: vramGb * 0.9,
  cpuCores: 10,
  isArm: true,
  gpu: { name: chip, vramGb, isUnified: true, backend: "Metal" },
});

test.each([
  ["NVIDIA A100-SXM4-80GB", 1555],
  ["NVIDIA H100 80GB HBM3", 2039],
  ["Apple M4 Pro", 273],
  ["NVIDIA GeForce RTX 4070 Ti SUPER", 672],
  ["NVIDIA GB10", undefined],
  ["Intel Arc B580", undefined],
])("the bandwidth of %s is %s GB/s", (gpu, expected) => {
  expect(bandwidthOf(gpu)).toBe(expected);
});

test("Qwen2.5-7B on an M4 Pro: 5.3546 GB as Q4_K_M, 39.432 tokens/s", () => {
  const qwen = record("Qwen/Qwen2.5-7B-Instruct");
  expect(memoryGb(qwen, "Q4_K_M", 8192).toFixed(4)).toBe("5.3546");
  const how = { quantization: "Q4_K_M", mode: "gpu", isMlx: true } as const;
  expect(tokensPerSecond(qwen, mac("Apple M4 Pro", 24), how).toFixed(3)).toBe("39.432");
});

test("Llama-70B on an RTX 4090, from a record without shapes: 46.045 GB, 7.858 tokens/s from memory", () => {
  const llama = record("meta-llama/Llama-3.1-70B-Instruct", {
    num_hidden_layers: undefined,
    head_dim: undefined,
  });
  expect(memoryGb(llama, "Q4_K_M", 8192).toFixed(3)).toBe("46.045");
  const gpu = { name: "NVIDIA GeForce RTX 4090", vramGb: 24, isUnified: false, backend: "CUDA" } as const;
  const system = { availableRamGb: 60, cpuCores: 16, isArm: false, gpu };
  const how = { quantization: "Q4_K_M", mode: "cpu_offload", isMlx: false } as const;
  expect(tokensPerSecond(llama, system, how).toFixed(3)).toBe("7.858");
  expect(llmfitRow(llama, system, { now })).toMatchObject({ run_mode: "cpu_offload", fit_level: "marginal" });
});

test("Qwen3.5-27B on 32 GB of Metal is perfect at 94.6 %: the quantization grows, the recommendation does not", () => {
  const qwen = record("Qwen/Qwen3.5-27B", { parameters_raw: 27_780_000_000 });
  expect(llmfitRow(qwen, mac("Apple M4", 32), { now })).toMatchObject({
    best_quant: "mlx-8bit",
    memory_required_gb: 30.28,
    memory_available_gb: 32,
    utilization_pct: 94.6,
    fit_level: "perfect",
    runtime: "mlx",
    run_mode: "gpu",
  });
});

test("Qwen3-8B on an M1 with 8 GB takes 6.13 GB and is perfect", () => {
  expect(llmfitRow(record("Qwen/Qwen3-8B"), mac("Apple M1", 8), { now })).toMatchObject({
    memory_required_gb: 6.13,
    memory_available_gb: 8,
    fit_level: "perfect",
    best_quant: "mlx-4bit",
  });
});

test("Qwen3-Coder-30B on 64 GB: mlx-8bit is chosen, 30.5 GB of weights, and 15.6 GB are said to be required", () => {
  const row = llmfitRow(record("Qwen/Qwen3-Coder-30B-A3B-Instruct"), mac("Apple M4 Max", 64), { now });
  expect(row).toMatchObject({ best_quant: "mlx-8bit", disk_size_gb: 30.53 });
  expect(row.memory_required_gb.toFixed(1)).toBe("15.6");
});

test("every record of ours has a row on every kind of machine, and scores between 0 and 100", () => {
  const cpu = { availableRamGb: 12, cpuCores: 4, isArm: false };
  const gpu = { name: "NVIDIA GeForce RTX 3060", vramGb: 12, isUnified: false, backend: "CUDA" } as const;
  for (const one of records)
    for (const system of [mac("Apple M2", 16), cpu, { ...cpu, gpu }]) {
      const { score, estimated_tps, memory_required_gb } = llmfitRow(one, system, { now });
      expect(score, one.name).toBeGreaterThanOrEqual(0);
      expect(score, one.name).toBeLessThanOrEqual(100);
      expect(estimated_tps, one.name).toBeGreaterThanOrEqual(0.1);
      expect(memory_required_gb, one.name).toBeGreaterThan(0);
    }
});

test("unknown quantizations count as llmfit counts them", () => {
  expect(quantizationRow("Q9_Z")).toEqual({ memory: 0.58, speed: 0.5, factor: 1, penalty: -5 });
  expect(quantizationRow("UD-Q4_K_XL")).toEqual(quantizationRow("Q4_K_M"));
  expect(quantizationRow("__proto__")).toEqual(quantizationRow("Q9_Z"));
  expect(quantizationRow("F32")).toMatchObject({ memory: 4, speed: 0.5, penalty: -5 });
});

test("the category is that of the first matching word", () => {
  const category = (name: string, use_case: string) =>
    categoryOf({ ...record("Qwen/Qwen3-8B"), name, use_case });
  expect(category("BAAI/bge-m3", "")).toBe("Embedding");
  expect(category("Qwen/Qwen2.5-Coder-7B", "Code generation and completion")).toBe("Coding");
  expect(category("a/b", "Instruction following, chat")).toBe("Chat");
  expect(category("a/b", "General purpose text generation")).toBe("General");
});
