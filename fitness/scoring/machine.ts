/** The facts of a machine that scores use: memory for engines, bandwidth, compute, disk. Pure. */
import type { Accelerator } from "../../src/api/fields/hardware.ts";
import type { Host } from "../../src/api/host.ts";
import { deviceClassOf } from "../../src/capacity/devices/devices.ts";
import { deviceClassOfHost } from "../../src/capacity/devices/host.ts";
import { hostBudget } from "../../src/capacity/placement/budget.ts";
import { hostAccelerator } from "../../src/engines/registry.ts";
import type { QuantizationFamily } from "../catalog/quantizations.ts";

/** Origin of an estimate, most reliable first. */
export type Basis = "measured" | "calibrated" | "estimated" | "guessed";

export interface Machine {
  readonly name: string;
  readonly chip: string;
  readonly accelerator: Accelerator;
  /** Installed memory; the budget if it is unknown. */
  readonly memoryBytes: number;
  readonly cpuCores: number;
  /** Memory that all engines together may claim. */
  readonly budgetBytes: number;
  readonly bandwidthGBs: number;
  /** Reliability of estimates for this chip. */
  readonly basis: Exclude<Basis, "measured">;
  /** 16-bit compute of the GPU; absent if unknown. */
  readonly teraflops?: number;
  /** Generation of an Apple chip: 4 for M4. */
  readonly generation?: number;
  readonly diskGBs?: number;
  /** Class of machines with the same speed; absent if too little is known. */
  readonly deviceClass?: string | undefined;
  /** Corrections of estimated speeds by results of this class and its neighbors. */
  readonly speedFactors?: Readonly<Partial<Record<QuantizationFamily, SpeedFactor>>>;
  /** Measured tokens per second, by the source of the model. */
  readonly measured: readonly { readonly source: string; readonly tokensPerSecond: number }[];
}

export interface SpeedFactor {
  readonly factor: number;
  /** True if there are enough results for the interval of calibrated speeds. */
  readonly isCalibrated: boolean;
}

export type MachineRead =
  | { readonly at: "known"; readonly machine: Machine }
  | { readonly at: "unusable"; readonly why: string };

/** Bandwidth and GPU cores of a chip's largest variant; `smaller` is the variant with fewer cores. */
interface Chip {
  readonly bandwidthGBs: number;
  readonly cores: number;
  readonly smaller?: { readonly bandwidthGBs: number; readonly cores: number };
}

const CHIPS: Readonly<Record<string, Chip>> = {
  M1: { bandwidthGBs: 68.25, cores: 8 },
  "M1 Pro": { bandwidthGBs: 200, cores: 16 },
  "M1 Max": { bandwidthGBs: 400, cores: 32 },
  "M1 Ultra": { bandwidthGBs: 800, cores: 64 },
  M2: { bandwidthGBs: 100, cores: 10 },
  "M2 Pro": { bandwidthGBs: 200, cores: 19 },
  "M2 Max": { bandwidthGBs: 400, cores: 38 },
  "M2 Ultra": { bandwidthGBs: 800, cores: 76 },
  M3: { bandwidthGBs: 100, cores: 10 },
  "M3 Pro": { bandwidthGBs: 150, cores: 18 },
  "M3 Max": { bandwidthGBs: 400, cores: 40, smaller: { bandwidthGBs: 300, cores: 30 } },
  "M3 Ultra": { bandwidthGBs: 819, cores: 80 },
  M4: { bandwidthGBs: 120, cores: 10 },
  "M4 Pro": { bandwidthGBs: 273, cores: 20 },
  "M4 Max": { bandwidthGBs: 546, cores: 40, smaller: { bandwidthGBs: 410, cores: 32 } },
  M5: { bandwidthGBs: 153, cores: 10 },
  "M5 Pro": { bandwidthGBs: 307, cores: 20 },
  "M5 Max": { bandwidthGBs: 614, cores: 40, smaller: { bandwidthGBs: 460, cores: 32 } },
};
/** Teraflops of one GPU core, by generation. */
const TERAFLOPS_PER_CORE: Readonly<Record<number, number>> = { 1: 0.325, 2: 0.36, 3: 0.36, 4: 0.43, 5: 0.45 };
/** The chip whose measurements the speeds were calibrated on. */
const CALIBRATED_ON = "M4 Pro";
/** Two channels of DDR4, the minimum of a machine. */
const UNKNOWN_BANDWIDTH_GBS = 50;
const MAX_BYTES = 64 * 1024 ** 4;
const MAX_GBS = 20_000;
const MAX_TOKENS_PER_SECOND = 20_000;
const MAX_CORES = 1024;
const DEFAULT_CPU_CORES = 8;

export interface MachineInput {
  readonly name: string;
  readonly chip: string;
  readonly accelerator: Accelerator;
  readonly memoryBytes: number | undefined;
  readonly budgetBytes: number | undefined;
  readonly bandwidthGBs?: number | undefined;
  readonly gpuCores?: number | undefined;
  readonly cpuCores?: number | undefined;
  readonly diskGBs?: number | undefined;
  readonly deviceClass?: string | undefined;
  readonly measured?: Machine["measured"];
}

/** Refuses impossible memory sizes and drops other impossible values. */
export function readMachine(input: MachineInput): MachineRead {
  const memoryBytes = withinLimit(input.memoryBytes, MAX_BYTES);
  if (input.memoryBytes !== undefined && memoryBytes === undefined)
    return { at: "unusable", why: `${input.memoryBytes} bytes of memory is not a valid memory size` };
  const budgetBytes = withinLimit(input.budgetBytes, memoryBytes ?? MAX_BYTES);
  if (budgetBytes === undefined)
    return {
      at: "unusable",
      why: `${input.budgetBytes ?? "unknown"} bytes for engines is no budget of this machine`,
    };
  const { name, chip, accelerator, measured = [] } = input;
  const machine = {
    name,
    chip,
    accelerator,
    budgetBytes,
    memoryBytes: memoryBytes ?? budgetBytes,
    cpuCores: withinLimit(input.cpuCores, MAX_CORES) ?? DEFAULT_CPU_CORES,
    ...chipValues(input),
    diskGBs: withinLimit(input.diskGBs, MAX_GBS),
    deviceClass: input.deviceClass ?? appleClass(input),
    measured: measured.filter((one) => withinLimit(one.tokensPerSecond, MAX_TOKENS_PER_SECOND) !== undefined),
  };
  return { at: "known", machine };
}

function chipValues(
  input: MachineInput,
): Pick<Machine, "bandwidthGBs" | "basis" | "teraflops" | "generation"> {
  const stated = withinLimit(input.bandwidthGBs, MAX_GBS);
  const name = chipNamed(input.chip);
  const chip = name === undefined ? undefined : CHIPS[name];
  if (name === undefined || chip === undefined)
    return {
      bandwidthGBs: stated ?? UNKNOWN_BANDWIDTH_GBS,
      basis: stated === undefined ? "guessed" : "estimated",
    };
  const cores = withinLimit(input.gpuCores, MAX_CORES) ?? chip.cores;
  const { smaller } = chip;
  const part = smaller !== undefined && cores <= smaller.cores ? smaller : chip;
  const generation = Number(name.slice(1, 2));
  return {
    bandwidthGBs: stated ?? part.bandwidthGBs,
    basis: name === CALIBRATED_ON ? "calibrated" : "estimated",
    generation,
    teraflops: (TERAFLOPS_PER_CORE[generation] ?? 0) * cores,
  };
}

function appleClass({ chip, gpuCores }: MachineInput): string | undefined {
  const name = chipNamed(chip);
  return name && deviceClassOf({ gpu: { vendor: "Apple", product: `Apple ${name}`, cores: gpuCores } });
}

/** A Host as its agent reports it. */
export function machineOf(host: Host): MachineRead {
  const { info, memory, models = [] } = host.status ?? {};
  const budget = hostBudget(host);
  if (!budget.known) return { at: "unusable", why: budget.why };
  return readMachine({
    name: host.metadata.name,
    chip: info?.chip ?? "",
    accelerator: hostAccelerator(info?.os),
    memoryBytes: memory?.totalBytes ?? info?.memoryBytes,
    budgetBytes: budget.bytes,
    bandwidthGBs: info?.memoryBandwidthGBs,
    gpuCores: info?.gpuCores,
    deviceClass: deviceClassOfHost(host),
    cpuCores: (info?.performanceCores ?? 0) + (info?.efficiencyCores ?? 0),
    measured: models.map(({ source, tokensPerSecond = 0 }) => ({ source, tokensPerSecond })),
  });
}

/** "Apple M4 Pro", "m4 pro" → "M4 Pro"; undefined for other chips. */
function chipNamed(text: string): string | undefined {
  const [, family, suffix] = /\b(m[1-9])(?:\s+(pro|max|ultra))?\b/i.exec(text.slice(0, 256)) ?? [];
  if (family === undefined) return undefined;
  const chipName = suffix === undefined ? family : `${family} ${suffix}`;
  return Object.keys(CHIPS).find((name) => name.toLowerCase() === chipName.toLowerCase());
}

function withinLimit(value: number | undefined, most: number): number | undefined {
  return value !== undefined && value > 0 && value <= most ? value : undefined;
}
