import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { Host } from "../../src/api/host.ts";
import { ladderOf, quantizationIn, quantizationOf } from "../catalog/quantizations.ts";
import { readCatalog } from "../catalog/record.ts";
import { bestFit, type FitRequest, isAtLeast, rankModels } from "./fitness.ts";
import { type Machine, machineOf, readMachine } from "./machine.ts";
import { qualityParts } from "./score.ts";

const { records } = readCatalog(readFileSync("catalog/models.jsonl", "utf8"));
const GIB = 1024 ** 3;
const request: FitRequest = {
  useCase: "general",
  contextSize: 8192,
  cacheType: "f16",
  families: ["gguf", "mlx"],
};
const find = (name: string) => {
  const record = records.find((one) => one.name === name);
  if (record === undefined) throw new Error(name);
  return record;
};
const machine = (budgetGiB: number, more: Partial<Machine> = {}): Machine => {
  const bytes = budgetGiB * GIB;
  const read = readMachine({
    name: "m",
    chip: "Apple M4 Pro",
    accelerator: "metal",
    memoryBytes: bytes,
    budgetBytes: bytes,
  });
  if (read.at !== "known") throw new Error(read.why);
  return { ...read.machine, ...more };
};

test.each([
  ["google/gemma-3-27b-it", { accelerator: "cpu", generation: undefined, bandwidthGBs: 50 }, "marginal"],
  ["Qwen/Qwen3-0.6B", { accelerator: "cpu", generation: undefined, bandwidthGBs: 50 }, "perfect"],
  ["google/gemma-3-27b-it", {}, "perfect"],
  ["BAAI/bge-large-en-v1.5", { accelerator: "cpu", generation: undefined, bandwidthGBs: 0.5 }, "perfect"],
] as const)("%s with enough memory on %o is a %s fit by its speed", (name, more, level) => {
  const fit = bestFit(find(name), machine(200, more), { ...request, useCase: undefined, families: ["gguf"] });
  expect(fit?.level).toBe(level);
  const isSlow = level === "marginal";
  expect(fit?.reasons.some((reason) => reason.includes("marginal at best"))).toBe(isSlow);
});

test("the computed score equals the worked example in docs/fitness.md", () => {
  const quantization = quantizationOf("Q4_K_M");
  if (quantization === undefined) throw new Error("unknown");
  const record = find("mistralai/Mistral-Small-24B-Instruct-2501");
  const fit = bestFit(record, machine(16), { ...request, useCase: "reasoning", quantization });
  if (fit?.promptTokensPerSecond === undefined || fit.firstTokenSeconds === undefined)
    throw new Error("no fit");
  const parts = qualityParts({ record, quantization, useCase: "reasoning" }).map(([, points]) =>
    points.toFixed(1),
  );
  expect(parts).toEqual(["71.5", "7.9", "-4.0"]);
  const doc = readFileSync("docs/fitness.md", "utf8").replaceAll("**", "");
  const { score, tokensPerSecond, promptTokensPerSecond, firstTokenSeconds, loadSeconds } = fit;
  for (const text of [
    `= ${(fit.claimBytes / 1e9).toFixed(2)} GB: a share of ${(fit.claimBytes / fit.budgetBytes).toFixed(3)}`,
    `= ${tokensPerSecond.value.toFixed(1)} tokens/s`,
    `= ${promptTokensPerSecond.value.toFixed(0)} tokens/s`,
    `= ${firstTokenSeconds.value.toFixed(1)} s. Loading`,
    `= ${loadSeconds.value.toFixed(1)} s.`,
    `Quality ${score.quality.toFixed(1)} = ${parts[0]} for size`,
    `Speed ${score.speed.toFixed(1)} = ${tokensPerSecond.value.toFixed(2)} of 30`,
    `Fit ${score.fit.toFixed(1)}`,
    `Context ${score.context.toFixed(1)} = ${fit.contextThatFits.toLocaleString("en")} tokens`,
    `Score ${score.total.toFixed(1)} =`,
    `${records.length} models`,
  ])
    expect(doc).toContain(text);
  expect(fit.level).toBe("marginal");
});

test("the best quantization is the first with the highest score, as in an exhaustive search", () => {
  for (const [budgetGiB, useCase] of [6, 14, 30].flatMap((budget) =>
    (["coding", "embedding"] as const).map((use) => [budget, use] as const),
  ))
    for (const record of records.filter(({ gguf_sources }) => gguf_sources.length > 0).slice(0, 60)) {
      const one = { ...request, useCase, families: ["gguf"] as const };
      const tried = ladderOf(record, "gguf").flatMap(
        (quantization) => bestFit(record, machine(budgetGiB), { ...one, quantization }) ?? [],
      );
      const fitting = tried.filter(({ level }) => level !== "too_tight");
      const highest = Math.max(...fitting.map(({ score }) => score.total));
      const wanted = fitting.find(({ score }) => score.total === highest);
      if (wanted !== undefined) expect(bestFit(record, machine(budgetGiB), one)).toEqual(wanted);
    }
});

test("every model of a use case is ranked once, fitting models first, with ties broken by name", () => {
  for (const useCase of ["coding", "embedding"] as const) {
    const ranked = rankModels(records, machine(21), { ...request, useCase });
    expect(new Set(ranked.map(({ model }) => model)).size).toBe(ranked.length);
    const tight = ranked.findIndex(({ level }) => level === "too_tight");
    if (tight >= 0) expect(ranked.slice(tight).every(({ level }) => level === "too_tight")).toBe(true);
    const fitting = ranked.filter(({ level }) => level !== "too_tight");
    expect(fitting.map(({ score }) => score.total)).toEqual(
      fitting.map(({ score }) => score.total).toSorted((a, b) => b - a),
    );
    for (const { score, claimBytes, budgetBytes } of fitting) {
      expect(claimBytes).toBeLessThanOrEqual(budgetBytes);
      expect(Object.values(score).every((points) => points >= 0 && points <= 100)).toBe(true);
    }
  }
  expect(
    rankModels(records, machine(21), { ...request, useCase: "embedding" }).map(({ model }) => model),
  ).toContain("BAAI/bge-m3");
  expect(isAtLeast("perfect", "good")).toBe(true);
  expect(isAtLeast("marginal", "good")).toBe(false);
});

test("a larger memory budget never reduces the context or the number of fitting models", () => {
  const contexts = [6, 8, 12, 24].map(
    (gib) =>
      bestFit(find("Qwen/Qwen3-8B"), machine(gib), { ...request, families: ["gguf"] })?.contextThatFits ?? 0,
  );
  expect(contexts).toEqual(contexts.toSorted((a, b) => a - b));
  const fitting = [4, 16, 64].map(
    (gib) =>
      rankModels(records.slice(0, 40), machine(gib), request).filter(({ level }) => level !== "too_tight")
        .length,
  );
  expect(fitting).toEqual(fitting.toSorted((a, b) => a - b));
});

test("a smaller KV cache type allows a larger context", () => {
  const quantization = quantizationOf("Q4_K_M");
  if (quantization === undefined) throw new Error("unknown");
  const context = (cacheType: FitRequest["cacheType"]) =>
    bestFit(find("meta-llama/Llama-3.3-70B-Instruct"), machine(48), { ...request, cacheType, quantization })
      ?.contextThatFits ?? 0;
  expect(context("q8_0")).toBeGreaterThan(context("f16"));
  expect(context("q4_0")).toBeGreaterThan(context("q8_0"));
});

test("a model that fits nowhere is too tight with its smallest file, and has score 0", () => {
  const fit = bestFit(find("deepseek-ai/DeepSeek-R1"), machine(16), request);
  expect(fit).toMatchObject({
    level: "too_tight",
    quantization: "Q2_K",
    score: { total: 0 },
    contextThatFits: 0,
  });
});

test("a speed measured on the host counts for the model and the file that it was measured with", () => {
  const measured = [
    { source: "hf://Qwen/Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M.gguf", tokensPerSecond: 12 },
    { source: "hf://Qwen/Qwen2.5-Coder-7B-Instruct-GGUF/x-q8_0.gguf", tokensPerSecond: 3 },
  ];
  const here = machine(21, { measured });
  const speed = (model: string, name: string) => {
    const quantization = quantizationOf(name);
    if (quantization === undefined) throw new Error(name);
    return bestFit(find(model), here, { ...request, quantization })?.tokensPerSecond;
  };
  expect(speed("Qwen/Qwen3-8B", "Q4_K_M")).toMatchObject({ value: 12, basis: "measured" });
  expect(speed("Qwen/Qwen3-8B", "Q8_0")).toMatchObject({ basis: "calibrated" });
  expect(speed("Qwen/Qwen2.5-Coder-7B-Instruct", "Q8_0")).toMatchObject({ value: 3 });
  expect(speed("Qwen/Qwen2.5-7B-Instruct", "Q8_0")).toMatchObject({ basis: "calibrated" });
});

test.each([
  ["x-Q4_K_M.gguf", "Q4_K_M"],
  ["x-BF16.gguf", "BF16"],
  ["mlx-community/x-4bit", "mlx-4bit"],
  ["x-Q9_Z", undefined],
])("the file %s has quantization %s", (file, expected) => {
  expect(quantizationIn(file)).toBe(expected);
});

const host = (status: object): Host => ({
  metadata: { name: "mac" },
  spec: { addresses: [], unschedulable: false, drain: false, memory: { evictionEnabled: true } },
  status,
});
test.each<[string, object]>([
  ["nothing", {}],
  ["no memory", { memory: { totalBytes: 0 } }],
  ["negative memory", { memory: { totalBytes: -1, gpuBudgetBytes: 8 * GIB } }],
  ["memory that is no number", { memory: { totalBytes: Number.NaN, gpuBudgetBytes: 8 * GIB } }],
  ["endless memory", { memory: { totalBytes: Number.POSITIVE_INFINITY } }],
  ["a thousand terabytes", { memory: { totalBytes: 1e15 } }],
  ["a budget above its memory", { memory: { totalBytes: 8 * GIB, gpuBudgetBytes: 16 * GIB } }],
])("a host that reports %s is unusable, with the reason", (_, status) => {
  expect(machineOf(host(status))).toMatchObject({ at: "unusable", why: expect.stringMatching(/./) });
});

const memory = { totalBytes: 24 * GIB, gpuBudgetBytes: 16 * GIB };
test.each<[string, object, Partial<Machine>]>([
  ["a negative bandwidth", { info: { chip: "Apple M4 Pro", memoryBandwidthGBs: -5 } }, { bandwidthGBs: 273 }],
  ["an absurd bandwidth", { info: { chip: "Apple M4 Pro", memoryBandwidthGBs: 1e9 } }, { bandwidthGBs: 273 }],
  ["no number of GPU cores", { info: { chip: "Apple M4 Max", gpuCores: Number.NaN } }, { bandwidthGBs: 546 }],
  ["a binned chip", { info: { chip: "Apple M4 Max", gpuCores: 32 } }, { bandwidthGBs: 410 }],
  ["an unknown chip", { info: { chip: "Banana 9000" } }, { bandwidthGBs: 50, basis: "guessed" }],
  ["a speed of NaN", { models: [{ source: "x", tokensPerSecond: Number.NaN }] }, { measured: [] }],
  ["a speed below zero", { models: [{ source: "x", tokensPerSecond: -3 }] }, { measured: [] }],
])("of a host that reports %s the rest counts", (_, status, expected) => {
  expect(machineOf(host({ memory, ...status }))).toMatchObject({ at: "known", machine: expected });
});
