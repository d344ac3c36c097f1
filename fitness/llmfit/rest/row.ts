/** The row of one model as llmfit's REST API prints it. Pure. */

import { billions, type CatalogRecord, categoryOf } from "../../catalog/record.ts";
import { bandwidthOf } from "../../scoring/gpus.ts";
import { round } from "../../scoring/units.ts";
import { DDR_GBPS, EFFICIENCY, type LlmfitRow, llmfitRow, type RowOptions, usableContext } from "../fit.ts";
import type { LlmfitSystem } from "../system.ts";

const FIT_LABELS = { perfect: "Perfect", good: "Good", marginal: "Marginal", too_tight: "Too Tight" };
const MODE_LABELS = { gpu: "GPU", moe_offload: "MoE", cpu_offload: "CPU+GPU", cpu_only: "CPU" };
const RUNTIME_LABELS = { llamacpp: "llama.cpp", mlx: "MLX", vllm: "vLLM" };
const MAX_GPUS = 8;

export interface RestRow extends LlmfitRow {
  readonly provider: string;
  readonly parameter_count: string;
  readonly params_b: number;
  readonly context_length: number;
  readonly usable_context: number;
  readonly use_case: string;
  readonly category: string;
  readonly release_date: string | null;
  readonly license: string | null;
  readonly [field: string]: unknown;
}

export interface RestRowOptions extends RowOptions {
  readonly isInstalled: boolean;
  /** Measured tokens per second with this model. */
  readonly measured?: number | undefined;
}

export function restRow(record: CatalogRecord, system: LlmfitSystem, options: RestRowOptions): RestRow {
  const row = llmfitRow(record, system, options);
  const { fit_level, run_mode, runtime, best_quant } = row;
  return {
    ...row,
    provider: record.provider,
    parameter_count: record.parameter_count,
    params_b: round(billions(record), 2),
    context_length: record.context_length,
    usable_context: usableContext(record, best_quant, row.memory_available_gb),
    use_case: record.use_case,
    category: categoryOf(record),
    release_date: record.release_date ?? null,
    is_moe: record.is_moe,
    fit_label: FIT_LABELS[fit_level],
    run_mode_label: MODE_LABELS[run_mode],
    runtime_label: RUNTIME_LABELS[runtime],
    notes: notesOf(row),
    gguf_sources: record.gguf_sources,
    capabilities: record.capabilities,
    capability_ids: record.capabilities,
    license: record.license ?? null,
    supports_tp: tensorParallelSizes(record),
    installed: options.isInstalled,
    ollama_name: null,
    estimate_basis: basisOf(row, system),
    verify_command: commandOf(row),
    measured_tps: options.measured ?? null,
  };
}

function notesOf({ fit_level, run_mode, ...row }: LlmfitRow): readonly string[] {
  const { memory_required_gb: required, memory_available_gb: available, moe_offloaded_gb } = row;
  const notes: string[] = [];
  if (fit_level === "too_tight")
    notes.push(`Needs ${required.toFixed(2)} GB, ${available.toFixed(2)} GB are available.`);
  if (run_mode === "cpu_only") notes.push("No usable GPU: the CPU generates.");
  if (run_mode === "cpu_offload") notes.push("Larger than the GPU's memory: runs from system memory.");
  if (run_mode === "moe_offload")
    notes.push(`Active experts on the GPU, ${(moe_offloaded_gb ?? 0).toFixed(2)} GB in system memory.`);
  return notes;
}

/** Numbers of GPUs that divide the numbers of both kinds of heads. */
function tensorParallelSizes(record: CatalogRecord): readonly number[] {
  const { num_attention_heads: heads, num_key_value_heads: keyValueHeads = heads } = record;
  if (heads === undefined || keyValueHeads === undefined) return [1];
  const all = Array.from({ length: MAX_GPUS }, (_, index) => index + 1);
  return all.filter((count) => heads % count === 0 && keyValueHeads % count === 0);
}

function basisOf({ run_mode, effective_context_length }: LlmfitRow, { gpu }: LlmfitSystem): object {
  const bandwidth = gpu === undefined ? undefined : bandwidthOf(gpu.name);
  const known = bandwidth === undefined ? "backend_constant" : "gpu_bandwidth_roofline";
  return {
    method: run_mode === "cpu_only" ? "cpu_constant" : known,
    gpu_bandwidth_gbps: bandwidth ?? null,
    ddr_bandwidth_gbps: run_mode === "moe_offload" ? DDR_GBPS : null,
    efficiency: EFFICIENCY,
    assumed_context: effective_context_length,
    local_calibration: null,
  };
}

function commandOf({ runtime, run_mode, best_quant }: LlmfitRow): string | null {
  if (runtime !== "llamacpp" || (run_mode !== "gpu" && run_mode !== "cpu_only")) return null;
  return `llama-bench -m <path-to-${best_quant}-gguf> -ngl ${run_mode === "gpu" ? 99 : 0} -p 512 -n 128`;
}
