import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { quantizationOf } from "../catalog/quantizations.ts";
import { readCatalog } from "../catalog/record.ts";
import { bestFit, type FitRequest } from "./fitness.ts";
import { readMachine } from "./machine.ts";

const { records } = readCatalog(readFileSync("catalog/models.jsonl", "utf8"));
const bytes = 48 * 1024 ** 3;
const read = readMachine({
  name: "m",
  chip: "Apple M4 Pro",
  accelerator: "metal",
  memoryBytes: bytes,
  budgetBytes: bytes,
});

function judge(name: string, quantization: string, draft?: string) {
  const step = quantizationOf(quantization);
  if (read.at !== "known" || step === undefined) throw new Error("unknown");
  const request: FitRequest = {
    useCase: "general",
    contextSize: 8192,
    cacheType: "f16",
    families: ["gguf", "mlx"],
    quantization: step,
    draft: draft === undefined ? undefined : { record: find(draft), tokens: 3 },
  };
  const found = bestFit(find(name), read.machine, request);
  if (found === undefined) throw new Error(name);
  return found;
}

function find(name: string) {
  const record = records.find((one) => one.name === name);
  if (record === undefined) throw new Error(name);
  return record;
}

test("the computed speed with a draft model equals the worked example in docs/fitness.md", () => {
  const alone = judge("Qwen/Qwen3-32B", "Q4_K_M");
  const draft = judge("Qwen/Qwen3-0.6B", "Q4_K_M");
  const both = judge("Qwen/Qwen3-32B", "Q4_K_M", "Qwen/Qwen3-0.6B");
  const doc = readFileSync("docs/fitness.md", "utf8");
  const ms = ({ tokensPerSecond }: typeof alone) => (1000 / tokensPerSecond.value).toFixed(1);
  for (const text of [
    `three proposals of ${ms(draft)} ms`,
    `a verification of ${ms(alone)} ms`,
    `which is ${both.tokensPerSecond.value.toFixed(1)} tokens/s instead of ${alone.tokensPerSecond.value.toFixed(1)}`,
  ])
    expect(doc).toContain(text);
  expect(both.tokensPerSecond.basis).toBe("guessed");
  expect(both.claimBytes).toBe(alone.claimBytes + draft.claimBytes);
  expect(both.reasons).toContain("decodes speculatively: Qwen/Qwen3-0.6B proposes 3 tokens a step");
});

test("a mixture of experts gains less from a draft, because each token of a step has its own experts", () => {
  const gain = (name: string) =>
    judge(name, "Q4_K_M", "Qwen/Qwen3-0.6B").tokensPerSecond.value /
    judge(name, "Q4_K_M").tokensPerSecond.value;
  expect(gain("Qwen/Qwen3-30B-A3B")).toBeLessThan(gain("Qwen/Qwen3-32B"));
});

test.each([
  ["of other tokens", "Qwen/Qwen3-32B", "Q4_K_M", "meta-llama/Llama-3.2-1B-Instruct"],
  ["that is larger", "Qwen/Qwen3-0.6B", "Q4_K_M", "Qwen/Qwen3-8B"],
  ["that is the model", "Qwen/Qwen3-0.6B", "Q4_K_M", "Qwen/Qwen3-0.6B"],
  ["for MLX files", "Qwen/Qwen3-32B", "mlx-4bit", "Qwen/Qwen3-0.6B"],
])("a draft %s changes nothing", (_, name, quantization, draft) => {
  expect(judge(name, quantization, draft)).toEqual(judge(name, quantization));
});
