/** The fit of a model as llmfit 1.1.10 works it out: memory, run mode, quantization, level. Pure. */
import { billions, type CatalogRecord } from "../catalog/record.ts";
import { type Components, componentsOf, round } from "./score.ts";
import { tokensPerSecond } from "./speed.ts";
import { GGUF_LADDER, MLX_LADDER, quantizationRow } from "./tables.ts";

export type RunMode = "gpu" | "moe_offload" | "cpu_offload" | "cpu_only";
export type Level = "perfect" | "good" | "marginal" | "too_tight";

/** As llmfit detects it; GiB. */
export interface LlmfitSystem {
  readonly availableRamGb: number;
  readonly cpuCores: number;
  readonly isArm: boolean;
  readonly gpu?: {
    readonly name: string;
    readonly vramGb: number;
    readonly isUnified: boolean;
    readonly backend: "Metal" | "CUDA" | "ROCm" | "Vulkan" | "SYCL";
  };
}

export interface LlmfitRow {
  readonly name: string;
  readonly fit_level: Level;
  readonly run_mode: RunMode;
  readonly runtime: "llamacpp" | "mlx" | "vllm";
  readonly best_quant: string;
  readonly score: number;
  readonly score_components: Components;
  readonly estimated_tps: number;
  readonly memory_required_gb: number;
  readonly memory_available_gb: number;
  readonly utilization_pct: number;
  readonly effective_context_length: number;
  readonly disk_size_gb: number;
}

const DEFAULT_CONTEXT = 8192;
const LEAST_CONTEXT = 1024;
const OVERHEAD_GB = 0.5;
const GIB = 1024 ** 3;
const PREQUANTIZED = new Set(["awq", "gptq", "autoround"]);

/** GB of weights and GiB of cache in one sum, as there. */
export function memoryGb(record: CatalogRecord, quantization: string, context: number): number {
  return billions(record) * quantizationRow(quantization).memory + cacheGb(record, context) + OVERHEAD_GB;
}

function cacheGb(record: CatalogRecord, context: number): number {
  const { num_hidden_layers: layers, head_dim: size, num_key_value_heads, num_attention_heads } = record;
  if (layers === undefined || size === undefined) return 8e-6 * billions(record) * context;
  return (2 * layers * (num_key_value_heads ?? num_attention_heads ?? 8) * size * context * 2) / GIB;
}

/** llmfit's own figures of a file of 4 bits, or what its scraper would have written. */
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
}

/** `now`: milliseconds; newness counts. */
export function llmfitRow(
  record: CatalogRecord,
  system: LlmfitSystem,
  { now, maxContext = DEFAULT_CONTEXT }: { readonly now: number; readonly maxContext?: number },
): LlmfitRow {
  const context = Math.min(record.context_length, maxContext);
  const isPrequantized = PREQUANTIZED.has(record.format ?? "");
  const isMlx = system.gpu?.backend === "Metal" && system.gpu.isUnified && !isPrequantized;
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
    runtime: isPrequantized ? "vllm" : isMlx ? "mlx" : "llamacpp",
    best_quant: quantization,
    score: components.total,
    score_components: components.parts,
    estimated_tps: round(tps, 1),
    memory_required_gb: round(place.required, 2),
    memory_available_gb: round(place.available, 2),
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

/** Each whole ladder at the context, then at half of it. */
function bestIn(
  record: CatalogRecord,
  ladders: readonly (readonly string[])[],
  { context, poolGb }: { readonly context: number; readonly poolGb: number },
): Found | undefined {
  const half = Math.floor(context / 2);
  for (const ladder of ladders)
    for (const tokens of half >= LEAST_CONTEXT ? [context, half] : [context])
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

/** The active experts on the GPU, the rest in memory; else all of it in memory. */
function mixtureBeyondGpu(record: CatalogRecord, vramGb: number, ram: number): Place {
  const active = record.active_parameters ?? billions(record) * 1e9;
  for (const quantization of GGUF_LADDER) {
    const { memory } = quantizationRow(quantization);
    const required = Math.max(0.5, ((active * memory) / GIB) * 1.1);
    const rest = ((billions(record) * 1e9 - active) * memory) / GIB;
    if (required <= vramGb && rest <= ram) return { mode: "moe_offload", required, available: vramGb };
  }
  const { min, vram } = catalogMemory(record);
  return min <= ram
    ? { mode: "cpu_offload", required: min, available: ram }
    : { mode: "gpu", required: vram, available: vramGb };
}

function levelOf({ mode, required, available }: Place, recommended: number): Level {
  if (required > available) return "too_tight";
  if (mode === "gpu" && recommended <= available) return "perfect";
  return available >= 1.2 * required ? "good" : "marginal";
}
