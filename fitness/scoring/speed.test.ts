import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { quantizationOf } from "../catalog/quantizations.ts";
import { type CatalogRecord, readCatalog } from "../catalog/record.ts";
import { type Machine, readMachine } from "./machine.ts";
import { decodeSpeed, promptSpeed } from "./speed.ts";

const { records } = readCatalog(readFileSync("catalog/models.jsonl", "utf8"));

/** Tokens per second for one request, with llama.cpp unless the quantization is an MLX one. */
type Row = readonly [chip: string, gpuCores: number, model: string, quantization: string, measured: number];

/** Community measurements on an M4 Pro with 24 GB that the constants of speed.ts were fitted to. */
const CALIBRATED: readonly Row[] = [
  ["M4 Pro", 20, "meta-llama/Llama-3.2-3B-Instruct", "Q4_K_M", 95.3],
  ["M4 Pro", 20, "Qwen/Qwen2.5-7B-Instruct", "Q4_K_M", 49.6],
  ["M4 Pro", 20, "meta-llama/Llama-3.1-8B-Instruct", "Q4_K_M", 47.3],
  ["M4 Pro", 20, "microsoft/phi-4", "Q4_K_M", 25.8],
  ["M4 Pro", 20, "mistralai/Mistral-Small-24B-Instruct-2501", "Q4_K_M", 16.5],
  ["M4 Pro", 20, "Qwen/Qwen3-30B-A3B", "Q4_K_M", 70.6],
  ["M4 Pro", 20, "openai/gpt-oss-20b", "MXFP4", 66.5],
  // The costs of recurrent layers, and of unpacking and launching on GPUs before M4, were fitted to these too.
  ["M4", 10, "Qwen/Qwen3.5-9B", "Q4_K_M", 16],
  ["M1 Max", 32, "meta-llama/Llama-3.1-8B-Instruct", "Q4_K_M", 46.2],
  ["M1 Max", 32, "Qwen/Qwen3-30B-A3B", "Q4_K_M", 51.03],
];

/** Measurements that were not used for calibration: XiongjieDai/GPU-Benchmarks-on-LLM-Inference (tg 512, mean of LLaMA 2), normiebench, jitesh.dev, hiesch.eu. */
const HELD_OUT: readonly Row[] = [
  ["M4", 10, "meta-llama/Llama-3.1-8B-Instruct", "Q4_K_M", 20.87],
  ["M4", 10, "Qwen/Qwen3.5-4B", "Q4_K_M", 28],
  ["M4", 10, "Qwen/Qwen3.5-9B", "mlx-4bit", 22],
  ["M4", 10, "Qwen/Qwen3.5-4B", "mlx-4bit", 39],
  ["M1", 7, "meta-llama/Meta-Llama-3-8B-Instruct", "Q4_K_M", 10.2],
  ["M1 Max", 32, "meta-llama/Meta-Llama-3-8B-Instruct", "Q4_K_M", 35.73],
  ["M1 Max", 32, "meta-llama/Meta-Llama-3-8B-Instruct", "F16", 18.75],
  ["M1 Max", 32, "meta-llama/Meta-Llama-3-70B-Instruct", "Q4_K_M", 4.34],
  ["M2 Ultra", 76, "meta-llama/Meta-Llama-3-8B-Instruct", "Q4_K_M", 78.81],
  ["M2 Ultra", 76, "meta-llama/Meta-Llama-3-8B-Instruct", "F16", 36.9],
  ["M2 Ultra", 76, "meta-llama/Meta-Llama-3-70B-Instruct", "Q4_K_M", 12.48],
  ["M2 Ultra", 76, "meta-llama/Meta-Llama-3-70B-Instruct", "F16", 4.76],
  ["M3 Max", 40, "meta-llama/Meta-Llama-3-8B-Instruct", "Q4_K_M", 48.97],
  ["M3 Max", 40, "meta-llama/Meta-Llama-3-8B-Instruct", "F16", 22.04],
  ["M3 Max", 40, "meta-llama/Meta-Llama-3-70B-Instruct", "Q4_K_M", 7.65],
  ["M1 Max", 24, "meta-llama/Llama-2-7b-chat-hf", "Q4_0", 48.65],
  ["M2 Ultra", 76, "meta-llama/Llama-2-7b-chat-hf", "Q4_0", 91.89],
  ["M2 Ultra", 76, "meta-llama/Llama-2-7b-chat-hf", "F16", 40.68],
  ["M2 Ultra", 76, "meta-llama/Llama-2-70b-chat-hf", "Q4_0", 14.37],
  ["M3", 10, "meta-llama/Llama-2-7b-chat-hf", "Q4_0", 20.79],
  ["M3 Max", 40, "meta-llama/Llama-2-7b-chat-hf", "Q4_0", 63.11],
  ["M3 Max", 40, "meta-llama/Llama-2-7b-chat-hf", "F16", 24.76],
];
/** hiesch.eu, llama.cpp pull request 15616, Mac-MLX issue 24, llmfit pull request 1053, Jackrong/gpt-oss-20b-MLX-4bit. */
const HELD_OUT_MIXTURES: readonly Row[] = [
  ["M3 Max", 40, "google/gemma-4-26B-A4B-it", "Q4_K_M", 63.9],
  ["M2 Ultra", 76, "Qwen/Qwen3-30B-A3B", "Q8_0", 76.31],
  ["M5 Max", 40, "Qwen/Qwen3.5-35B-A3B", "mlx-4bit", 133.5],
  ["M5 Pro", 20, "Qwen/Qwen3.6-35B-A3B", "mlx-4bit", 73.4],
  ["M2 Max", 30, "openai/gpt-oss-20b", "mlx-4bit", 91.5],
];

test("estimates for the measurements used for calibration are within 12 %", () => {
  for (const row of CALIBRATED) expect(errorOf(row), row.join(" ")).toBeLessThan(0.12);
});

test("half of the estimates for other measurements are within 15 %, and within 20 % for mixtures of experts", () => {
  expect(median(HELD_OUT.map(errorOf))).toBeLessThan(0.15);
  expect(median(HELD_OUT_MIXTURES.map(errorOf))).toBeLessThan(0.2);
});

test.each([
  ["M4", 10, "meta-llama/Llama-3.1-8B-Instruct", 224.8],
  ["M1 Max", 32, "meta-llama/Meta-Llama-3-8B-Instruct", 408.23],
  ["M2 Ultra", 76, "meta-llama/Meta-Llama-3-8B-Instruct", 994.04],
  ["M3 Max", 40, "meta-llama/Meta-Llama-3-8B-Instruct", 693.32],
  ["M3 Max", 40, "meta-llama/Meta-Llama-3-70B-Instruct", 70.19],
])(
  "the prompt speed measured on %s (%i GPU cores) with %s lies in the interval",
  (chip, cores, model, measured) => {
    const prompt = promptSpeed(recordOf(model), machineWith(chip, cores));
    expect(prompt).toMatchObject({ basis: "estimated" });
    expect(measured).toBeGreaterThan(prompt?.low ?? Number.POSITIVE_INFINITY);
    expect(measured).toBeLessThan(prompt?.high ?? 0);
  },
);

test("a measurement on the machine replaces the estimate", () => {
  const quantization = quantizationOf("Q4_K_M");
  if (quantization === undefined) throw new Error("unknown");
  const record = recordOf("Qwen/Qwen3-8B");
  const input = {
    record,
    quantization,
    machine: machineWith("M4 Pro", 20),
    cacheType: "f16",
    tokensInUse: 128,
  } as const;
  expect(decodeSpeed(input)).toMatchObject({ basis: "calibrated" });
  expect(decodeSpeed(input, 31)).toMatchObject({ value: 31, basis: "measured" });
});

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

function errorOf([chip, cores, model, name, measured]: Row): number {
  const quantization = quantizationOf(name);
  if (quantization === undefined) throw new Error(name);
  const machine = machineWith(chip, cores);
  const { value } = decodeSpeed({
    record: recordOf(model),
    machine,
    quantization,
    cacheType: "f16",
    tokensInUse: 128,
  });
  return Math.abs(value / measured - 1);
}

function recordOf(name: string): CatalogRecord {
  const record = records.find((one) => one.name === name);
  if (record === undefined) throw new Error(name);
  return record;
}

function machineWith(chip: string, gpuCores: number): Machine {
  const bytes = 64 * 1024 ** 3;
  const read = readMachine({
    name: "m",
    chip: `Apple ${chip}`,
    accelerator: "metal",
    gpuCores,
    memoryBytes: bytes,
    budgetBytes: bytes,
  });
  if (read.at !== "known") throw new Error(read.why);
  return read.machine;
}
