/** llmfit's plan: the hardware that a model needs with one quantization, context and cache, and what this machine lacks. Pure. */
import * as z from "zod";
import type { CatalogRecord } from "../../catalog/record.ts";
import { bandwidthOf } from "../../scoring/gpus.ts";
import { cacheGb, catalogMemory, memoryGb, tokensPerSecond } from "../fit.ts";
import { type LlmfitSystem, type Overrides, type System, scoredSystem } from "../system.ts";
import { BadRequest, checkedOverrides } from "./filters.ts";

export interface PlanRequest {
  readonly model: string;
  /** Tokens. */
  readonly context: number;
  readonly quantization: string | undefined;
  readonly targetTps: number | undefined;
  readonly cache: CacheName;
  readonly overrides: Overrides;
}

export type PlanBody =
  | { readonly ok: true; readonly request: PlanRequest }
  | { readonly ok: false; readonly status: 400 | 415 | 422; readonly why: string };

const QUANTIZATIONS = (
  "F32,F16,BF16,Q8_0,Q6_K,Q5_K_M,Q4_K_M,Q4_0,Q3_K_M,Q2_K,mlx-8bit,mlx-4bit,AWQ-4bit,AWQ-8bit,GPTQ-Int4," +
  "GPTQ-Int8,AutoRound-4bit,AutoRound-8bit"
).split(",");
type CacheName = "fp16" | "fp8" | "q8_0" | "q4_0" | "tq";
/** Bytes per element. */
const CACHE_BYTES: Readonly<Record<CacheName, number>> = { fp16: 2, fp8: 1, q8_0: 1, q4_0: 0.5, tq: 0.34 };
const CACHE_NAMES = ["fp16", "fp8", "q8_0", "q4_0", "tq"] as const;
const CACHE_ALIASES: Readonly<Record<string, CacheName>> = {
  fp16: "fp16",
  f16: "fp16",
  bf16: "fp16",
  default: "fp16",
  fp8: "fp8",
  f8: "fp8",
  q8: "q8_0",
  q8_0: "q8_0",
  int8: "q8_0",
  q4: "q4_0",
  q4_0: "q4_0",
  int4: "q4_0",
  tq: "tq",
  turboquant: "tq",
};
/** Numbers of layers with full and with linear attention, by a part of the model's name. */
const LAYOUTS: readonly (readonly [name: RegExp, full: number, linear: number])[] = [
  [/qwen3-next/, 10, 30],
  [/qwen3\.[568]-.*-a(3|10|17)b/, 10, 30],
  [/qwen3\.[568]-.*-a95b/, 23, 69],
  [/qwen3\.[568]-/, 16, 48],
  [/jamba/, 4, 28],
  [/zamba/, 2, 54],
  [/mamba|rwkv/, 0, 1],
];
const NOTICE = "Estimates from parameters, bandwidth and fixed factors; nothing was measured.";
const MIN_CORES = 4;
const MAX_CORES = 64;

const number = z.number().optional().nullable();
const bodySchema = z.object({
  model: z.string().max(512),
  context: z.int().min(0).max(4_294_967_295),
  quant: z.string().max(64).nullish(),
  target_tps: number,
  kv_quant: z.string().max(64).nullish(),
  ram_gb: number,
  ram: number,
  vram_gb: number,
  memory: number,
  cpu_cores: z.int().min(0).nullish(),
});

/** Throws BadRequest for values of the right type that are out of range. */
export function readPlanBody(request: { readonly contentType: string; readonly body: string }): PlanBody {
  if (!/^application\/([\w.-]+\+)?json\s*(;|$)/i.test(request.contentType))
    return { ok: false, status: 415, why: "Expected request with `Content-Type: application/json`" };
  let value: unknown;
  try {
    value = JSON.parse(request.body);
  } catch {
    return { ok: false, status: 400, why: "Failed to parse the request body as JSON" };
  }
  const parsed = bodySchema.safeParse(value);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const why = `${issue?.path.map(String).join(".") ?? ""}: ${issue?.message ?? "invalid"}`;
    return {
      ok: false,
      status: 422,
      why: `Failed to deserialize the JSON body into the target type: ${why}`,
    };
  }
  return { ok: true, request: planRequestOf(parsed.data) };
}

function planRequestOf(body: z.output<typeof bodySchema>): PlanRequest {
  const { model, context, quant, target_tps: targetTps, kv_quant } = body;
  if (context === 0) throw new BadRequest("invalid context value: expected a positive integer");
  if (targetTps != null && !(targetTps > 0))
    throw new BadRequest("invalid target_tps value: expected a positive number");
  const requested = quant?.trim().toLowerCase();
  const quantization = QUANTIZATIONS.find((one) => one.toLowerCase() === requested);
  if (requested !== undefined && quantization === undefined)
    throw new BadRequest(`invalid quant value: use ${QUANTIZATIONS.join("|")}`);
  const alias = (kv_quant ?? "default").trim().toLowerCase();
  const cache = Object.hasOwn(CACHE_ALIASES, alias) ? CACHE_ALIASES[alias] : undefined;
  if (cache === undefined) throw new BadRequest(`invalid kv_quant value: use ${CACHE_NAMES.join("|")}`);
  return {
    model,
    context,
    quantization,
    targetTps: targetTps ?? undefined,
    cache,
    overrides: checkedOverrides({
      ramGb: body.ram_gb ?? body.ram ?? undefined,
      vramGb: body.vram_gb ?? body.memory ?? undefined,
      cpuCores: body.cpu_cores ?? undefined,
    }),
  };
}

type FitName = "Perfect" | "Good" | "Marginal" | "TooTight";
type PathName = "gpu" | "cpu_offload" | "cpu_only";

interface Needs {
  readonly vram_gb: number | null;
  readonly ram_gb: number;
  readonly cpu_cores: number;
}

interface Path {
  readonly path: PathName;
  readonly feasible: boolean;
  readonly minimum: Needs | null;
  readonly recommended: Needs | null;
  readonly estimated_tps: number | null;
  readonly fit_level: FitName | null;
  readonly notes: readonly string[];
}

const INFEASIBLE = { feasible: false, minimum: null, recommended: null } as const;

interface Plan {
  readonly record: CatalogRecord;
  readonly quantization: string;
  readonly system: LlmfitSystem;
  readonly vramGb: number;
  readonly requiredGb: number;
  readonly targetTps: number | undefined;
}

/** Numbers are not rounded. Throws BadRequest for a cache type that this machine does not support. */
export function planFor(
  record: CatalogRecord,
  found: System,
  request: PlanRequest,
): Readonly<Record<string, unknown>> {
  const { context, cache } = request;
  const system = scoredSystem(found);
  const quantization = request.quantization ?? record.quantization;
  if (cache === "tq" && !hasTurboQuant(system))
    throw new BadRequest("invalid kv_quant value: tq needs a CUDA GPU");
  const requiredGb = memoryGb(record, quantization, context, cacheBytes(record, cache));
  const vramGb = system.gpu?.vramGb ?? 0;
  const plan = { record, quantization, system, vramGb, requiredGb, targetTps: request.targetTps };
  const paths = [gpuPath(plan), offloadPath(plan), cpuPath(plan)];
  const first = paths.find(({ feasible }) => feasible);
  return {
    estimate_notice: NOTICE,
    model_name: record.name,
    provider: record.provider,
    context,
    quantization,
    kv_quant: cache,
    target_tps: request.targetTps ?? null,
    minimum: first?.minimum ?? null,
    recommended: first?.recommended ?? null,
    run_paths: paths,
    current: currentOf(plan, paths),
    upgrade_deltas: deltasOf(plan, first),
    kv_alternatives: CACHE_NAMES.map((name) => alternativeOf(plan, context, name)),
  };
}

function gpuPath(plan: Plan): Path {
  const { record, requiredGb: required, vramGb } = plan;
  const recommended = Math.max(catalogMemory(record).recommended, 1.2 * required);
  const ram = Math.max(8, 0.2 * required);
  return pathOf(plan, {
    path: "gpu",
    minimum: { vram_gb: required, ram_gb: ram },
    recommended: { vram_gb: recommended, ram_gb: Math.max(12, 1.25 * ram) },
    fit: levelOf({ required, available: vramGb, recommended }),
  });
}

function offloadPath(plan: Plan): Path {
  const { requiredGb: required, system } = plan;
  if (system.gpu?.isUnified === true)
    return {
      ...INFEASIBLE,
      path: "cpu_offload",
      estimated_tps: null,
      fit_level: null,
      notes: ["CPU offload is skipped on unified-memory systems"],
    };
  return pathOf(plan, {
    path: "cpu_offload",
    minimum: { vram_gb: 2, ram_gb: required },
    recommended: { vram_gb: 4, ram_gb: 1.2 * required },
    fit: levelOf({ required, available: system.availableRamGb }),
  });
}

function cpuPath(plan: Plan): Path {
  const { requiredGb: required, system } = plan;
  return pathOf(plan, {
    path: "cpu_only",
    minimum: { vram_gb: null, ram_gb: required },
    recommended: { vram_gb: null, ram_gb: 1.2 * required },
    fit: required > system.availableRamGb ? "TooTight" : "Marginal",
  });
}

/** Perfect only if a recommendation is met. */
function levelOf(memory: {
  readonly required: number;
  readonly available: number;
  readonly recommended?: number;
}): FitName {
  const { required, available, recommended = Number.POSITIVE_INFINITY } = memory;
  if (required > available) return "TooTight";
  if (recommended <= available) return "Perfect";
  return available >= 1.2 * required ? "Good" : "Marginal";
}

interface PathInput {
  readonly path: PathName;
  readonly minimum: Omit<Needs, "cpu_cores">;
  readonly recommended: Omit<Needs, "cpu_cores">;
  readonly fit: FitName;
}

function pathOf(plan: Plan, { path, minimum, recommended, fit }: PathInput): Path {
  const cores = minCores(plan, path);
  if (cores === undefined)
    return {
      ...INFEASIBLE,
      path,
      estimated_tps: speedOf(plan, path),
      fit_level: fit,
      notes: [`No number of cores reaches ${plan.targetTps} tokens/s on this path.`],
    };
  return {
    path,
    feasible: true,
    estimated_tps: speedOf(plan, path),
    fit_level: fit,
    notes: [],
    minimum: { ...minimum, cpu_cores: cores },
    recommended: { ...recommended, cpu_cores: Math.max(8, cores) },
  };
}

/** Uses the constants, which depend on cores. Undefined if even the maximum is too small. */
function minCores(plan: Plan, path: PathName): number | undefined {
  const { targetTps, record, quantization, system } = plan;
  if (targetTps === undefined) return MIN_CORES;
  const { gpu } = system;
  // An unknown GPU name selects the constants.
  const blind = gpu === undefined ? system : { ...system, gpu: { ...gpu, name: "" } };
  const options = { quantization, mode: path, isMlx: isApple(system) };
  for (let cpuCores = 1; cpuCores <= MAX_CORES; cpuCores += 1)
    if (tokensPerSecond(record, { ...blind, cpuCores }, options) >= targetTps) return cpuCores;
  return undefined;
}

function speedOf({ record, quantization, system }: Plan, path: PathName): number {
  const isKnown = system.gpu !== undefined && bandwidthOf(system.gpu.name) !== undefined;
  const mode = path === "cpu_offload" && record.is_moe && isKnown ? "moe_offload" : path;
  return tokensPerSecond(record, system, { quantization, mode, isMlx: isApple(system) });
}

/** The first path that works on this machine, or the first possible one if none does. */
function currentOf({ system }: Plan, paths: readonly Path[]): object {
  const possible = paths.filter(
    ({ path, fit_level }) => fit_level !== null && (system.gpu === undefined) === (path === "cpu_only"),
  );
  const now = possible.find(({ fit_level }) => fit_level !== "TooTight") ?? possible[0];
  const modes = { gpu: "Gpu", cpu_offload: "CpuOffload", cpu_only: "CpuOnly" };
  return {
    fit_level: now?.fit_level ?? "TooTight",
    run_mode: modes[now?.path ?? "gpu"],
    estimated_tps: now?.estimated_tps ?? 0,
  };
}

function deltasOf({ record, requiredGb, vramGb, system }: Plan, first: Path | undefined): readonly object[] {
  const recommended = Math.max(catalogMemory(record).recommended, 1.2 * requiredGb);
  const more = (target_fit: "Good" | "Perfect", needed: number) => {
    const add_gb = Math.max(0, needed - vramGb);
    const description = `${add_gb.toFixed(1)} GB more GPU memory for ${target_fit}`;
    return { resource: "vram_gb", add_gb, add_cores: null, target_fit, path: "gpu", description };
  };
  const deltas: object[] = [more("Good", requiredGb), more("Perfect", recommended)];
  if (first === undefined || first.minimum === null) return deltas;
  const { path, minimum } = first;
  const none = { add_gb: null, add_cores: null, target_fit: null, path };
  const add_gb = minimum.ram_gb - system.availableRamGb;
  if (add_gb > 0)
    deltas.push({ ...none, resource: "ram_gb", add_gb, description: `${add_gb.toFixed(1)} GB more memory` });
  const add_cores = minimum.cpu_cores - system.cpuCores;
  if (add_cores > 0)
    deltas.push({ ...none, resource: "cpu_cores", add_cores, description: `${add_cores} more CPU cores` });
  return deltas;
}

function alternativeOf(plan: Plan, context: number, name: CacheName): object {
  const { record, quantization, system } = plan;
  const bytes = cacheBytes(record, name);
  const supported = name !== "tq" || hasTurboQuant(system);
  return {
    kv_quant: name,
    memory_required_gb: memoryGb(record, quantization, context, bytes),
    kv_cache_gb: cacheGb(record, context, bytes),
    savings_fraction: 1 - bytes / CACHE_BYTES.fp16,
    note: supported ? null : "needs a CUDA GPU",
    supported,
  };
}

/** Average over the layers: TurboQuant compresses only layers with full attention. */
function cacheBytes(record: CatalogRecord, name: CacheName): number {
  const bytes = CACHE_BYTES[name];
  if (name !== "tq") return bytes;
  const lower = record.name.toLowerCase();
  const [, full = 1, linear = 0] = LAYOUTS.find(([pattern]) => pattern.test(lower)) ?? [];
  const part = full / (full + linear);
  return part * bytes + (1 - part) * CACHE_BYTES.fp16;
}

function hasTurboQuant({ gpu }: LlmfitSystem): boolean {
  return gpu?.backend === "CUDA";
}

function isApple({ gpu }: LlmfitSystem): boolean {
  return gpu?.backend === "Metal" && gpu.isUnified;
}
