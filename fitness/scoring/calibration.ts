/** Corrects estimated speeds by measured results of the same class of machines and of neighboring classes. Pure. */
import type { BenchmarkResult } from "../../src/api/benchmark.ts";
import type { ClassBandwidth } from "../../src/capacity/fitness.ts";
import { hostAccelerator } from "../../src/engines/registry.ts";
import { isDeepEqual } from "../../src/util/deep-equal.ts";
import type { Match } from "../catalog/match.ts";
import { type QuantizationFamily, quantizationIn, quantizationOf } from "../catalog/quantizations.ts";
import { bandwidthOf } from "./gpus.ts";
import { type Machine, readMachine, type SpeedFactor } from "./machine.ts";
import { decodeSpeed } from "./speed.ts";

/** The part of a result that calibration reads. */
export type MeasuredSpeed = Pick<BenchmarkResult, "model" | "quantization" | "deviceClass" | "settings"> & {
  readonly tool?: BenchmarkResult["tool"] | undefined;
  readonly generation: Pick<BenchmarkResult["generation"], "median">;
};

/** Ratio of a measured speed to its estimate. */
export interface SpeedRatio {
  readonly deviceClass: string;
  readonly generation: number | undefined;
  readonly family: QuantizationFamily;
  /** Measured speed divided by the estimate. */
  readonly ratio: number;
}

/** Tokens that a benchmark has in use on average. */
const TOKENS_IN_USE = 128;
/** A greater difference is an error of the result, or of the catalog. */
const MAX_RATIO = 4;
const NEIGHBOR_WEIGHT = 0.5;
/** Weight of the assumption that the estimate is right, so that few results change it less. */
const PRIOR_WEIGHT = 1;
/** Total weight of results from which on a speed counts as calibrated. */
const CALIBRATED_WEIGHT = 1;
const UNLIMITED_BYTES = 2 ** 45;

/** Results with other settings than the defaults except for the number of GPUs, of unknown models or quantizations, and implausible ones have no ratio. */
export function speedRatios(
  results: Iterable<MeasuredSpeed>,
  match: (name: string) => Match,
): readonly SpeedRatio[] {
  return [...results].flatMap((result) => ratioOf(result, match) ?? []);
}

function ratioOf(
  { model, quantization: stated, settings, generation, ...measured }: MeasuredSpeed,
  match: (name: string) => Match,
): SpeedRatio | undefined {
  const found = match(model);
  const quantization = quantizationOf(stated ?? "") ?? quantizationOf(quantizationIn(model) ?? "");
  const { gpus, ...others } = settings;
  const deviceClass = classInUse(measured, gpus);
  const machine = machineOfClass(deviceClass);
  if (found.at !== "one" || quantization === undefined || machine === undefined) return undefined;
  if (Object.values(others).some((value) => value !== undefined)) return undefined;
  const input = { record: found.record, quantization, machine } as const;
  const estimate = decodeSpeed({ ...input, cacheType: "f16", tokensInUse: TOKENS_IN_USE });
  const ratio = generation.median / estimate.value;
  if (!(ratio >= 1 / MAX_RATIO && ratio <= MAX_RATIO)) return undefined;
  return { deviceClass, generation: machine.generation, family: quantization.family, ratio };
}

/** The class of the GPUs that the engine used: a pod gets one GPU of its node unless the settings state more. */
function classInUse({ deviceClass, tool }: Pick<MeasuredSpeed, "deviceClass" | "tool">, gpus = "1"): string {
  if (tool !== "requests") return deviceClass;
  return deviceClass.replace(/-x\d+(?=(-shared)?$)/, Number(gpus) > 1 ? `-x${Number(gpus)}` : "");
}

/** The machine with the factors of these results. Neighbors are Apple chips of the same generation. */
export function calibrate(machine: Machine, ratios: readonly SpeedRatio[]): Machine {
  const gguf = factorFor(machine, ratios, "gguf");
  const mlx = factorFor(machine, ratios, "mlx");
  const speedFactors = gguf === undefined && mlx === undefined ? undefined : { gguf, mlx };
  return isDeepEqual(speedFactors, machine.speedFactors) ? machine : { ...machine, speedFactors };
}

/** The geometric mean of the ratios, which damps single outliers. Undefined without results. */
function factorFor(
  { deviceClass, generation }: Machine,
  ratios: readonly SpeedRatio[],
  family: QuantizationFamily,
): SpeedFactor | undefined {
  let weights = 0;
  let sum = 0;
  for (const one of ratios) {
    if (one.family !== family || deviceClass === undefined) continue;
    const isNeighbor = generation !== undefined && one.generation === generation;
    const weight = one.deviceClass === deviceClass ? 1 : isNeighbor ? NEIGHBOR_WEIGHT : 0;
    weights += weight;
    sum += weight * Math.log(one.ratio);
  }
  if (weights === 0) return undefined;
  return { factor: Math.exp(sum / (weights + PRIOR_WEIGHT)), isCalibrated: weights >= CALIBRATED_WEIGHT };
}

/** A machine of a class for estimates of speed, with any amount of memory. Undefined for GPUs without a known bandwidth. */
export function machineOfClass(deviceClass: string): Machine | undefined {
  const [, vendor = "cpu", name = "", count = "1"] =
    /^(apple|nvidia|amd|intel)-(.+?)(?:-x(\d+))?(?:-shared)?$/.exec(deviceClass) ?? [];
  const [, chip = name.replaceAll("-", " "), cores] =
    vendor === "apple" ? (/^(\S+(?: \D\S*)?) ?(\d+)?$/.exec(name.replaceAll("-", " ")) ?? []) : [];
  const bandwidthGBs = vendor === "apple" || vendor === "cpu" ? undefined : bandwidthOf(chip);
  if (vendor !== "apple" && vendor !== "cpu" && bandwidthGBs === undefined) return undefined;
  const read = readMachine({
    name: deviceClass,
    chip: vendor === "cpu" ? "" : `${vendor} ${chip}`,
    accelerator: ACCELERATORS[vendor] ?? "cpu",
    gpuCores: cores === undefined ? undefined : Number(cores),
    bandwidthGBs: bandwidthGBs === undefined ? undefined : bandwidthGBs * Number(count),
    memoryBytes: UNLIMITED_BYTES,
    budgetBytes: UNLIMITED_BYTES,
  });
  return read.at === "known" ? { ...read.machine, deviceClass } : undefined;
}

/** More than two sockets with the fastest memory have. */
const MAX_CPU_GBS = 1_000;

/** Undefined if the bandwidth of the class is only guessed. */
export function bandwidthOfClass(deviceClass: string): ClassBandwidth | undefined {
  const machine = machineOfClass(deviceClass);
  if (machine?.accelerator === "cpu") return { most: MAX_CPU_GBS * 1e9, least: 0 };
  if (machine === undefined || machine.basis === "guessed") return undefined;
  const bandwidth = machine.bandwidthGBs * 1e9;
  return { most: bandwidth, least: bandwidth };
}

const ACCELERATORS: Readonly<Record<string, Machine["accelerator"]>> = {
  apple: hostAccelerator("darwin"),
  nvidia: "cuda",
  amd: "rocm",
  intel: "intel",
};
