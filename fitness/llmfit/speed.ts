/** Tokens per second as llmfit 1.1.10 estimates them. Pure. */
import { billions, type CatalogRecord } from "../catalog/record.ts";
import { bandwidthOf } from "../scoring/gpus.ts";
import type { LlmfitSystem } from "./system.ts";
import { quantizationRow } from "./tables.ts";

export const EFFICIENCY = 0.55;
const MODE_FACTORS: Readonly<Record<RunMode, number>> = {
  gpu: 1,
  moe_offload: 0.8,
  cpu_offload: 0.5,
  cpu_only: 0.3,
};
const CONSTANTS = { MLX: 250, Metal: 160, CUDA: 220, ROCm: 180, Vulkan: 150, SYCL: 100, arm: 90, x86: 70 };
export const DDR_GBPS = 50;
const MIN_TPS = 0.1;

interface SpeedOptions {
  readonly quantization: string;
  readonly mode: RunMode;
  readonly isMlx: boolean;
}

export function tokensPerSecond(record: CatalogRecord, system: LlmfitSystem, options: SpeedOptions): number {
  const { gpu } = system;
  const active = record.is_moe ? record.active_parameters : undefined;
  const billion = Math.max(MIN_TPS, active === undefined ? billions(record) : active / 1e9);
  const bandwidth = gpu === undefined ? undefined : bandwidthOf(gpu.name);
  const factor = MODE_FACTORS[options.mode];
  const row = quantizationRow(options.quantization);
  if (bandwidth === undefined || options.mode === "cpu_only") {
    const coresFactor = system.cpuCores >= 8 ? 1.1 : 1;
    return Math.max(MIN_TPS, (constantOf(system, options) / billion) * row.factor * coresFactor * factor);
  }
  if (options.mode === "moe_offload") {
    const bytes = billion * row.speed;
    return Math.max(MIN_TPS, (1 / (bytes / DDR_GBPS + bytes / (bandwidth * EFFICIENCY))) * factor);
  }
  if (record.is_moe && options.mode === "gpu")
    return Math.max(
      MIN_TPS,
      mixtureSpeed(record, { billion, bandwidth, memory: row.memory, vramGb: gpu?.vramGb ?? 0 }),
    );
  return Math.max(MIN_TPS, (bandwidth / (billion * row.speed)) * EFFICIENCY * factor);
}

function constantOf({ gpu, isArm }: LlmfitSystem, { mode, isMlx }: SpeedOptions): number {
  if (mode === "cpu_only" || gpu === undefined) return isArm ? CONSTANTS.arm : CONSTANTS.x86;
  return isMlx ? CONSTANTS.MLX : CONSTANTS[gpu.backend];
}

interface Mixture {
  readonly billion: number;
  readonly bandwidth: number;
  readonly memory: number;
  readonly vramGb: number;
}

function mixtureSpeed(record: CatalogRecord, { billion, bandwidth, memory, vramGb }: Mixture): number {
  const press = pressure(record, (billions(record) * memory) / vramGb);
  const gigabytes = tokenGigabytes(record, memory);
  if (gigabytes !== undefined) return (bandwidth / gigabytes) * press;
  return (bandwidth / (billion * memory)) * EFFICIENCY * overhead(record.num_experts) * press;
}

/** GB that one token reads; undefined if a shape is unknown. */
function tokenGigabytes(record: CatalogRecord, memory: number): number | undefined {
  const { hidden_size: h, num_hidden_layers: layers, active_experts: used, vocab_size: vocabulary } = record;
  const width = record.moe_intermediate_size;
  if (
    h === undefined ||
    layers === undefined ||
    used === undefined ||
    width === undefined ||
    vocabulary === undefined
  )
    return undefined;
  const heads = record.num_attention_heads ?? 0;
  const size = record.head_dim ?? (heads === 0 ? 0 : h / heads);
  const attention = 2 * heads * size * h + 2 * (record.num_key_value_heads ?? heads) * size * h;
  const shared = layers * 3 * h * (record.shared_expert_intermediate_size ?? 0);
  const router = layers * (record.num_experts ?? 8) * h;
  const fixed = (layers * attention + shared + router + 2 * vocabulary * h) / 1e9;
  return ((layers * used * 3 * h * width) / 1e9) * memory + fixed * 3.2;
}

function pressure({ num_experts, active_experts }: CatalogRecord, use: number): number {
  if (use < 0.6 || use > 1) return 1;
  const ratio =
    num_experts === undefined || active_experts === undefined ? 0.5 : active_experts / num_experts;
  return Math.max(0.3, 1 - (use - 0.6) * (1 - ratio));
}

function overhead(experts: number | undefined): number {
  if (experts === undefined) return 0.6;
  if (experts <= 8) return 0.9;
  if (experts <= 16) return 0.85;
  if (experts <= 32) return 0.8;
  return experts <= 64 ? 0.7 : 0.4;
}

export type RunMode = "gpu" | "moe_offload" | "cpu_offload" | "cpu_only";
