/** Computes the fit of a model like llmfit 1.1.10: memory, run mode, quantization, level. Pure. */
import { billions, type CatalogRecord } from "../catalog/record.ts";
import { isAtLeast } from "../scoring/fitness.ts";
import { round } from "../scoring/units.ts";
import { type Components, componentsOf } from "./score.ts";
import { type RunMode, tokensPerSecond } from "./speed.ts";
import type { LlmfitSystem } from "./system.ts";
import { GGUF_LADDER, MLX_LADDER, quantizationRow } from "./tables.ts";
export type LlmfitFitLevel = "perfect" | "good" | "marginal" | "too_tight";
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

/** llmfit's own figures for a 4-bit file, or those that its scraper would write. */
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
