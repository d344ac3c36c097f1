import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { type BenchmarkResult, benchmarkResultSchema } from "../../src/api/benchmark.ts";
import { hostSchema } from "../../src/api/host.ts";
import { createMatcher } from "../catalog/match.ts";
import { quantizationOf } from "../catalog/quantizations.ts";
import { readCatalog } from "../catalog/record.ts";
import { createFitness } from "../fitness.ts";
import { calibrate, type MeasuredSpeed, machineOfClass, speedRatios } from "./calibration.ts";
import type { Machine } from "./machine.ts";
import { nodeMachineFor, readNode } from "./node.ts";
import { decodeSpeed } from "./speed.ts";

const { records } = readCatalog(readFileSync("catalog/models.jsonl", "utf8"));
const match = createMatcher(records);
const MODEL = "Qwen/Qwen3-8B";

function machineIn(deviceClass: string): Machine {
  const machine = machineOfClass(deviceClass);
  if (machine === undefined) throw new Error(deviceClass);
  return machine;
}

function speedOn(machine: Machine, name = "Q4_K_M") {
  const record = records.find((one) => one.name === MODEL);
  const quantization = quantizationOf(name);
  if (record === undefined || quantization === undefined) throw new Error(name);
  return decodeSpeed({ record, machine, quantization, cacheType: "f16", tokensInUse: 128 });
}

const result = (deviceClass: string, factor: number, change: Partial<MeasuredSpeed> = {}): MeasuredSpeed => ({
  model: MODEL,
  quantization: "Q4_K_M",
  deviceClass,
  settings: {},
  tool: "llama-bench",
  generation: { median: speedOn(machineIn(deviceClass)).value * factor },
  ...change,
});

const calibrated = (deviceClass: string, ...results: readonly MeasuredSpeed[]) =>
  calibrate(machineIn(deviceClass), speedRatios(results, match));

/** Change of the estimate by the results. */
const change = (deviceClass: string, ...results: readonly MeasuredSpeed[]) =>
  speedOn(calibrated(deviceClass, ...results)).value / speedOn(machineIn(deviceClass)).value;

test("results of the class correct its estimates, the more the more there are", () => {
  const slow = result("apple-m4-max-40", 0.5);
  expect(change("apple-m4-max-40")).toBe(1);
  expect(change("apple-m4-max-40", slow)).toBeCloseTo(Math.SQRT1_2);
  expect(change("apple-m4-max-40", slow, slow, slow)).toBeCloseTo(0.5 ** 0.75);
  expect(speedOn(machineIn("apple-m4-max-40")).basis).toBe("estimated");
  const after = speedOn(calibrated("apple-m4-max-40", slow));
  expect(after.basis).toBe("calibrated");
  expect(after.high / after.value).toBeCloseTo(1.15);
});

test("results of chips of the same generation count half, and one alone does not narrow the interval", () => {
  const slow = result("apple-m4-10", 0.5);
  expect(change("apple-m4-max-40", slow)).toBeCloseTo(0.5 ** (0.5 / 1.5));
  expect(speedOn(calibrated("apple-m4-max-40", slow)).basis).toBe("estimated");
  expect(speedOn(calibrated("apple-m4-max-40", slow, slow)).basis).toBe("calibrated");
  expect(change("apple-m3-max-40", slow)).toBe(1);
});

test("a class of GPUs is corrected by its own results only, and MLX not by GGUF", () => {
  const slow = result("nvidia-l40s", 0.5);
  expect(change("nvidia-l40s", slow)).toBeCloseTo(Math.SQRT1_2);
  expect(change("nvidia-l4", slow)).toBe(1);
  expect(change("cpu-amd-epyc-9354-32", result("cpu-amd-epyc-9354-32", 2))).toBeCloseTo(Math.SQRT2);
  const mac = calibrated("apple-m4-10", result("apple-m4-10", 0.5));
  expect(speedOn(mac, "mlx-4bit")).toEqual(speedOn(machineIn("apple-m4-10"), "mlx-4bit"));
});

test.each<[deviceClass: string, settings: MeasuredSpeed["settings"], used: string]>([
  ["nvidia-l40s-x2", {}, "nvidia-l40s"],
  ["nvidia-l40s-x8", { gpus: "2" }, "nvidia-l40s-x2"],
  ["nvidia-l40s-x2", { gpus: "2" }, "nvidia-l40s-x2"],
  ["nvidia-a10-x4-shared", {}, "nvidia-a10-shared"],
])("a pod on %s with settings %o corrects %s", (deviceClass, settings, used) => {
  const { generation } = result(used, 0.5);
  const slow = result(deviceClass, 0.5, { tool: "requests", settings, generation });
  expect(change(used, slow)).toBeCloseTo(Math.SQRT1_2);
  if (used !== deviceClass) expect(change(deviceClass, slow)).toBe(1);
});

test("a pod on GPUs that pods share has the class of shared GPUs", () => {
  const of = { product: "NVIDIA-A10-SHARED", memory: "23028", count: "1", replicas: "4" };
  const labels = Object.fromEntries(
    Object.entries(of).map(([key, value]) => [`nvidia.com/gpu.${key}`, value]),
  );
  const resources = { cpu: "8", memory: "64Gi", "nvidia.com/gpu": "4" };
  const status = { capacity: resources, allocatable: resources };
  const node = readNode({ metadata: { name: "shared", uid: "1", labels }, status });
  const machine = nodeMachineFor(node, { accelerator: "cuda", gpus: 1 });
  expect(machine).toMatchObject({ machine: { deviceClass: "nvidia-a10-shared" } });
});

test.each<[string, Partial<MeasuredSpeed>]>([
  ["an unknown model", { model: "org/unknown" }],
  ["an unknown quantization", { quantization: "FP4" }],
  ["other settings", { settings: { gpuLayers: "0" } }],
  ["an implausible speed", { generation: { median: 90_000 } }],
  ["a GPU of unknown bandwidth", { deviceClass: "nvidia-next" }],
  ["a class with nonsense", { deviceClass: "apple--x" }],
])("a result of %s corrects nothing", (_, given) => {
  expect(change("apple-m4-10", result("apple-m4-10", 0.5, given))).toBe(1);
});

test("the score of a host uses the results of its class", () => {
  const gib = 1024 ** 3;
  const host = hostSchema.parse({
    metadata: { name: "mac-1" },
    spec: {},
    status: {
      info: { os: "darwin 25", chip: "Apple M4 Max", gpuCores: 40, memoryBytes: 64 * gib },
      memory: { totalBytes: 64 * gib, gpuBudgetBytes: 48 * gib },
    },
  });
  const need = { source: `hf://${MODEL}`, quantization: "Q4_K_M", settings: {} };
  const { model, quantization, deviceClass, settings, generation } = result("apple-m4-max-40", 0.5);
  const measured = benchmarkResultSchema.parse({
    ...{ model, quantization, deviceClass, settings, machine: "mac-2", runtime: "llamacpp", build: "b1" },
    ...{ measuredAt: "2026-11-26T10:00:00Z", tool: "llama-bench" },
    generation: { ...generation, spread: 0, samples: [] },
  });
  const { forReplica } = createFitness(records);
  const speedWith = (results?: ReadonlyMap<string, BenchmarkResult>) => {
    const fit = forReplica(need, results).fitOn({ host });
    return fit.at === "fits" ? fit.scored?.tokensPerSecond : undefined;
  };
  const [before, after] = [speedWith(), speedWith(new Map([["key", measured]]))];
  expect(before?.basis).toBe("estimated");
  expect(after?.basis).toBe("calibrated");
  expect((after?.value ?? 0) / (before?.value ?? 1)).toBeCloseTo(Math.SQRT1_2);
});

test("without results the estimate is as before", () => {
  const before = calibrated("apple-m4-10", result("apple-m4-10", 0.5));
  expect(speedOn(calibrate(before, []))).toEqual(speedOn(machineIn("apple-m4-10")));
});

test("the class of a Mac names its chip and its cores", () => {
  expect(machineIn("apple-m3-max-30")).toMatchObject({ bandwidthGBs: 300, generation: 3 });
  expect(machineIn("apple-m4-10")).toMatchObject({ bandwidthGBs: 120, generation: 4 });
  expect(machineIn("apple-m2-ultra")).toMatchObject({ bandwidthGBs: 800 });
  expect(machineIn("nvidia-l40s-x2")).toMatchObject({ bandwidthGBs: 1728, accelerator: "cuda" });
});
