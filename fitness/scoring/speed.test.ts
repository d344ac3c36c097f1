import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { createMatcher } from "../catalog/match.ts";
import { quantizationOf } from "../catalog/quantizations.ts";
import { type CatalogRecord, readCatalog } from "../catalog/record.ts";
import { readResults } from "../fixtures/results.ts";
import { speedRatios } from "./calibration.ts";
import { type Machine, readMachine } from "./machine.ts";
import { decodeSpeed, promptSpeed } from "./speed.ts";

const { records } = readCatalog(readFileSync("catalog/models.jsonl", "utf8"));
const match = createMatcher(records);

test("estimates for the measurements used for calibration are within 12 %", () => {
  for (const { model, ratio } of ratiosIn("fitted.json")) expect(errorOf(ratio), model).toBeLessThan(0.12);
});

test("half of the estimates for other measurements are within 15 %, and within 20 % for mixtures of experts", () => {
  const errorsIn = (file: string) => ratiosIn(file).map(({ ratio }) => errorOf(ratio));
  expect(median(errorsIn("published.json"))).toBeLessThan(0.15);
  expect(median(errorsIn("published-mixtures.json"))).toBeLessThan(0.2);
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

/** Every result in the file has a ratio. */
function ratiosIn(file: string) {
  const { results } = readResults(file);
  return results.map((result) => {
    const [ratio] = speedRatios([result], match);
    if (ratio === undefined) throw new Error(`${result.model} on ${result.deviceClass}`);
    return { model: `${result.model} on ${result.deviceClass}`, ratio: ratio.ratio };
  });
}

function errorOf(ratio: number): number {
  return Math.abs(1 / ratio - 1);
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
