/** Estimates the speed at which a machine runs a record's file: decoding, prompts, loading. Calibrated on an M4 Pro (docs/fitness.md). Pure. */

import { bytesPerToken, type FileSize, type Quantization } from "../catalog/quantizations.ts";
import { billions, type CatalogRecord } from "../catalog/record.ts";
import { parametersOf } from "../catalog/shape.ts";
import { type CacheType, keyValueBytesPerToken } from "./claim.ts";
import type { Basis, Machine } from "./machine.ts";

/** A value with its origin and its 90 % interval. */
export interface Estimate {
  readonly value: number;
  readonly low: number;
  readonly high: number;
  readonly basis: Basis;
}

interface Engine {
  /** Share of the memory bandwidth that the engine reaches. */
  readonly efficiency: number;
  /** Milliseconds per layer for launching work, independent of its size. */
  readonly layerMs: number;
  readonly mixtureLayerMs: number;
  readonly recurrentLayerMs: number;
}

const ENGINES: Readonly<Record<Quantization["family"], Engine>> = {
  gguf: { efficiency: 0.87, layerMs: 0.065, mixtureLayerMs: 0.15, recurrentLayerMs: 0.45 },
  mlx: { efficiency: 0.9, layerMs: 0.065, mixtureLayerMs: 0.15, recurrentLayerMs: 0.1 },
};
/** GPUs before M4 launch work more slowly. */
const OLD_GENERATION = 3;
const OLD_LAYER_FACTOR = 1.4;
/** Cost of unpacking blocks of less than 8 bits on these GPUs, in milliseconds × teraflops per billion weights. */
const OLD_UNPACK = 26;
const UNPACKED_BITS = 8;
/** Efficiency of CPUs and of unknown GPUs. */
const UNKNOWN_EFFICIENCY = 0.6;
/** Share of the teraflops that prompts reach. */
const PROMPT_EFFICIENCY = 0.65;
const MIXTURE_PROMPT_EFFICIENCY = 0.35;
/** Minimum read speed of a Mac's internal SSD. */
const DISK_GBS = 2.5;
const START_SECONDS = 0.5;

const SPREAD: Readonly<Record<Basis, number>> = {
  measured: 0.1,
  calibrated: 0.15,
  estimated: 0.3,
  guessed: 0.6,
};

export interface SpeedInput {
  readonly record: CatalogRecord;
  readonly machine: Machine;
  readonly quantization: Quantization;
  readonly cacheType: CacheType;
  /** Tokens of the request so far. */
  readonly tokensInUse: number;
}

/** Tokens per second of one request. A measurement on this machine replaces the estimate, and those of its class correct it. */
export function decodeSpeed(input: SpeedInput, measured?: number): Estimate {
  if (measured !== undefined) return estimate(measured, "measured");
  const { machine, quantization } = input;
  const { factor = 1, isCalibrated = false } = machine.speedFactors?.[quantization.family] ?? {};
  const basis = machine.accelerator === "cpu" ? "guessed" : machine.basis;
  return estimate((1000 * factor) / decodeMs(input), isCalibrated ? "calibrated" : basis);
}

/** Milliseconds to decode one token. */
export function decodeMs(input: SpeedInput): number {
  return readMs(input) + layersMs(input.record, input.machine, input.quantization);
}

/** Time to read weights and cache, or to unpack the weights if this takes longer. */
function readMs({ record, machine, quantization, cacheType, tokensInUse }: SpeedInput): number {
  const { generation = 0, teraflops } = machine;
  const cache = (keyValueBytesPerToken(record, cacheType) ?? 0) * tokensInUse;
  const efficiency = generation === 0 ? UNKNOWN_EFFICIENCY : ENGINES[quantization.family].efficiency;
  const reading = (bytesPerToken(record, quantization) + cache) / (machine.bandwidthGBs * efficiency * 1e6);
  const isUnpacked = generation <= OLD_GENERATION && quantization.bits < UNPACKED_BITS;
  if (teraflops === undefined || !isUnpacked) return reading;
  return Math.max(reading, (OLD_UNPACK * activeBillions(record)) / teraflops);
}

function layersMs(record: CatalogRecord, { generation = 0 }: Machine, { family }: Quantization): number {
  const { layerMs, mixtureLayerMs, recurrentLayerMs } = ENGINES[family];
  const layers = record.num_hidden_layers ?? 0;
  const interval = record.linear_num_value_heads === undefined ? 1 : (record.full_attention_interval ?? 1);
  const recurrent = layers - layers / interval;
  const plain = record.num_experts === undefined ? layerMs : mixtureLayerMs;
  const factor = generation <= OLD_GENERATION ? OLD_LAYER_FACTOR : 1;
  return factor * ((layers - recurrent) * plain + recurrent * Math.max(plain, recurrentLayerMs));
}

/** Tokens of a prompt per second; undefined for an unknown GPU. */
export function promptSpeed(record: CatalogRecord, machine: Machine): Estimate | undefined {
  const milliseconds = promptMsPerToken(record, machine);
  if (milliseconds === undefined) return undefined;
  return estimate(1000 / milliseconds, record.num_experts === undefined ? "estimated" : "guessed");
}

/** Milliseconds of arithmetic per prompt token. */
export function promptMsPerToken(record: CatalogRecord, { teraflops }: Machine): number | undefined {
  if (teraflops === undefined) return undefined;
  const share = record.num_experts === undefined ? PROMPT_EFFICIENCY : MIXTURE_PROMPT_EFFICIENCY;
  return (2e12 * activeBillions(record)) / (teraflops * share * 1e12);
}

/** Seconds until the first token of a prompt. */
export function firstTokenSeconds(promptTokens: number, prompt: Estimate, decode: Estimate): Estimate {
  return estimate(promptTokens / prompt.value + 1 / decode.value, prompt.basis);
}

/** Seconds until a file is in memory. */
export function loadSeconds({ bytes }: FileSize, { diskGBs }: Machine): Estimate {
  const seconds = START_SECONDS + bytes / ((diskGBs ?? DISK_GBS) * 1e9);
  return estimate(seconds, diskGBs === undefined ? "guessed" : "estimated");
}

/** Parameters that work on one token, in billions. */
export function activeBillions(record: CatalogRecord): number {
  const parts = parametersOf(record);
  if (parts !== undefined) return (parts.always + parts.expertsUsed) / 1e9;
  return record.active_parameters === undefined ? billions(record) : record.active_parameters / 1e9;
}

export function estimate(value: number, basis: Basis): Estimate {
  const spread = SPREAD[basis];
  return { value, low: value / (1 + spread), high: value * (1 + spread), basis };
}
