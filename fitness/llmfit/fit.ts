/** Computes the fit of a model like llmfit 1.1.10: memory, run mode, quantization, level, tokens per second. Pure. */
import { billions, type CatalogRecord } from "../catalog/record.ts";
import { isAtLeast } from "../scoring/fitness.ts";
import { bandwidthOf } from "../scoring/gpus.ts";
import { round } from "../scoring/units.ts";
import { type Components, componentsOf } from "./score.ts";
import type { LlmfitSystem } from "./system.ts";
import { GGUF_LADDER, MLX_LADDER, quantizationRow } from "./tables.ts";
export type LlmfitFitLevel = "perfect" | "good" | "marginal" | "too_tight";
export type RunMode = "gpu" | "moe_offload" | "cpu_offload" | "cpu_only";
export type LlmfitRuntime = "llamacpp" | "mlx" | "vllm";

export interface LlmfitRow {
  readonly name: string;
  readonly fit_level: LlmfitFitLevel;
  readonly run_mode: RunMode;
  readonly runtime: LlmfitRuntime;
  readonly best_quant: string;
  readonly score: number;
  readonly score_components: Components;
  readonly estimated_tps: number;
  readonly memory_required_gb: number;
  readonly memory_available_gb: number;
  /** Experts that stay in system memory; null if the model is in one place. */
  readonly moe_offloaded_gb: number | null;
  readonly total_memory_gb: number;
  readonly utilization_pct: number;
  readonly effective_context_length: number;
  readonly disk_size_gb: number;
}

const DEFAULT_CONTEXT = 8192;
const MIN_CONTEXT = 1024;
const OVERHEAD_GB = 0.5;
const GIB = 1024 ** 3;
const PREQUANTIZED = new Set(["awq", "gptq", "autoround"]);
/** Bytes per element of the cache. */
const FP16_BYTES = 2;

/** Adds GB of weights and GiB of cache, like llmfit. */
export function memoryGb(
  record: CatalogRecord,
  quantization: string,
  context: number,
  cacheBytes = FP16_BYTES,
): number {
  const weights = billions(record) * quantizationRow(quantization).memory;
  return weights + cacheGb(record, context, cacheBytes) + OVERHEAD_GB;
}

export function cacheGb(record: CatalogRecord, context: number, cacheBytes = FP16_BYTES): number {
  const { num_hidden_layers: layers, head_dim: size, num_key_value_heads, num_attention_heads } = record;
  if (layers === undefined || size === undefined)
    return (8e-6 * billions(record) * context * cacheBytes) / FP16_BYTES;
  const heads = num_key_value_heads ?? num_attention_heads ?? 8;
  return (2 * layers * heads * size * context * cacheBytes) / GIB;
}

/** Tokens of context that fit with this quantization; at most the model's window. */
export function usableContext(record: CatalogRecord, quantization: string, availableGb: number): number {
  const left = Math.max(0, availableGb - memoryGb(record, quantization, 0));
  const perToken = cacheGb(record, 4096) / 4096;
  return Math.min(record.context_length, perToken > 0 ? Math.floor(left / perToken) : record.context_length);
}

/** llmfit's own values for a 4-bit file, or those that its scraper would write. */
export function catalogMemory(record: CatalogRecord): Record<"min" | "recommended" | "vram", number> {
  const gib = (billions(record) * 1e9 * 0.5) / GIB;
  return {
    min: record.min_ram_gb ?? round(Math.max(1, gib * 1.2), 1),
    recommended: record.recommended_ram_gb ?? round(Math.max(2, gib * 2), 1),
    vram: record.min_vram_gb ?? round(Math.max(0.5, gib * 1.1), 1),
  };
}

interface Place {
  readonly mode: RunMode;
  readonly required: number;
  readonly available: number;
  readonly offloaded?: number;
}

export interface RowOptions {
  /** Milliseconds; used for the newness of models. */
  readonly now: number;
  readonly maxContext?: number | undefined;
  /** Replaces the machine's default runtime. */
  readonly runtime?: LlmfitRuntime | undefined;
}

/** Best first; equal scores by name (random in llmfit). Excludes models that the machine cannot load. */
export function llmfitRows(
  records: readonly CatalogRecord[],
  system: LlmfitSystem,
  { minLevel, ...options }: RowOptions & { readonly minLevel: LlmfitFitLevel },
): readonly LlmfitRow[] {
  return records
    .filter((record) => isLoadable(record, system))
    .map((record) => llmfitRow(record, system, options))
    .filter(({ fit_level }) => isAtLeast(fit_level, minLevel))
    .sort((a, b) => b.score - a.score || (a.name < b.name ? -1 : 1));
}

/** MLX files need Apple's GPUs, prequantized files CUDA or ROCm; text-to-speech models are excluded. */
export function isLoadable({ name, format, capabilities }: CatalogRecord, { gpu }: LlmfitSystem): boolean {
  if (capabilities.includes("tts")) return false;
  if (PREQUANTIZED.has(format ?? "")) return gpu?.backend === "CUDA" || gpu?.backend === "ROCm";
  const isMlxFile = /-mlx(-|$)/i.test(name.slice(-512));
  return !isMlxFile || (gpu?.backend === "Metal" && gpu.isUnified);
}

export function llmfitRow(
  record: CatalogRecord,
  system: LlmfitSystem,
  { now, maxContext = DEFAULT_CONTEXT, runtime }: RowOptions,
): LlmfitRow {
  const context = Math.min(record.context_length, maxContext);
  const isPrequantized = PREQUANTIZED.has(record.format ?? "");
  const isApple = system.gpu?.backend === "Metal" && system.gpu.isUnified;
  const isMlx = runtime === undefined ? isApple && !isPrequantized : runtime === "mlx";
  const ladder = isPrequantized
    ? [record.quantization]
    : isMlx
      ? [...MLX_LADDER, ...GGUF_LADDER]
      : [...GGUF_LADDER];
  const best = (poolGb: number) =>
    bestIn(record, isMlx ? [MLX_LADDER, GGUF_LADDER] : [ladder], { context, poolGb });
  const place = placeOf(record, system, { best, context });
  const quantization = best(place.available)?.quantization ?? record.quantization;
  const tps = tokensPerSecond(record, system, { quantization, mode: place.mode, isMlx });
  const components = componentsOf(record, { quantization, tps, ...place, now });
  return {
    name: record.name,
    fit_level: levelOf(place, catalogMemory(record).recommended),
    run_mode: place.mode,
    runtime: runtime ?? (isPrequantized ? "vllm" : isMlx ? "mlx" : "llamacpp"),
    best_quant: quantization,
    score: components.total,
    score_components: components.parts,
    estimated_tps: round(tps, 1),
    memory_required_gb: round(place.required, 2),
    memory_available_gb: round(place.available, 2),
    moe_offloaded_gb: place.offloaded === undefined ? null : round(place.offloaded, 2),
    total_memory_gb: round(place.required + (place.offloaded ?? 0), 2),
    utilization_pct: round((place.required / place.available) * 100, 1),
    effective_context_length: context,
    disk_size_gb: round(billions(record) * quantizationRow(quantization).memory, 2),
  };
}

interface Found {
  readonly quantization: string;
  readonly gb: number;
}
type Best = (poolGb: number) => Found | undefined;

/** Tries each ladder with the full context, then with half of it. */
function bestIn(
  record: CatalogRecord,
  ladders: readonly (readonly string[])[],
  { context, poolGb }: { readonly context: number; readonly poolGb: number },
): Found | undefined {
  const half = Math.floor(context / 2);
  for (const ladder of ladders)
    for (const tokens of half >= MIN_CONTEXT ? [context, half] : [context])
      for (const quantization of ladder) {
        const gb = memoryGb(record, quantization, tokens);
        if (gb <= poolGb) return { quantization, gb };
      }
  return undefined;
}

function placeOf(
  record: CatalogRecord,
  { gpu, availableRamGb: ram }: LlmfitSystem,
  { best, context }: { readonly best: Best; readonly context: number },
): Place {
  const { min, vram: minVram } = catalogMemory(record);
  const standard = memoryGb(record, record.quantization, context);
  const dense = (pool: number) => best(pool)?.gb ?? standard;
  if (gpu === undefined)
    return { mode: "cpu_only", required: record.is_moe ? min : dense(ram), available: ram };
  const { vramGb, isUnified } = gpu;
  const onGpu = { mode: "gpu" as const, available: vramGb };
  if (isUnified) return { ...onGpu, required: record.is_moe ? minVram : dense(vramGb) };
  if (record.is_moe && minVram <= vramGb) return { ...onGpu, required: minVram };
  const found = best(vramGb);
  if (found !== undefined) return { ...onGpu, required: found.gb };
  if (record.is_moe) return mixtureBeyondGpu(record, vramGb, ram);
  const inRam = best(ram);
  if (inRam !== undefined) return { mode: "cpu_offload", required: inRam.gb, available: ram };
  return { ...onGpu, required: standard };
}

/** Active experts on the GPU and the others in memory; else everything in memory. */
function mixtureBeyondGpu(record: CatalogRecord, vramGb: number, ram: number): Place {
  const active = record.active_parameters ?? billions(record) * 1e9;
  for (const quantization of GGUF_LADDER) {
    const { memory } = quantizationRow(quantization);
    const required = Math.max(0.5, ((active * memory) / GIB) * 1.1);
    const rest = ((billions(record) * 1e9 - active) * memory) / GIB;
    if (required <= vramGb && rest <= ram)
      return { mode: "moe_offload", required, available: vramGb, offloaded: rest };
  }
  const { min, vram } = catalogMemory(record);
  return min <= ram
    ? { mode: "cpu_offload", required: min, available: ram }
    : { mode: "gpu", required: vram, available: vramGb };
}

function levelOf({ mode, required, available }: Place, recommended: number): LlmfitFitLevel {
  if (required > available) return "too_tight";
  if (mode === "gpu" && recommended <= available) return "perfect";
  return available >= 1.2 * required ? "good" : "marginal";
}

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
