/** The density API with the reader's own rights. */

import type { UsableMachines } from "../../../src/capacity/runs-on.ts";
import { requestJson } from "./request.ts";

const API = "/api/v1";
/** The API bounds its pages; more than these are not fetched for one view. */
const MAX_PAGES = 20;

/** As in the density API, best first. */
export type FitLevel = "perfect" | "good" | "marginal" | "too_tight";

interface MachineName {
  readonly kind: "Host" | "Node";
  readonly nodeName: string;
}

export interface DensityNode extends MachineName {
  readonly stale: boolean;
  readonly schedulable: boolean;
  readonly system: {
    readonly total_ram_gb: number;
    readonly cpu_cores: number;
    readonly cpu_name: string;
    readonly has_gpu: boolean;
    readonly gpu_name: string | null;
    readonly gpu_count: number;
    readonly backend: string;
  };
  /** Number of models that fit. */
  readonly modelFitCount: number;
  readonly bestScore: number;
  readonly memoryLeftGb: number | null;
  readonly memoryBudgetGb: number | null;
  readonly problem?: string;
}

export interface DensityModel {
  readonly modelName: string;
  readonly bestScore: number;
  readonly bestNode: string;
  readonly fitLevel: FitLevel;
  readonly nodeCount: number;
  /** The best one only. */
  readonly nodes: readonly {
    readonly quantization: string;
    readonly requiredMemoryGb: number;
    readonly availableMemoryGb: number;
  }[];
}

/** How a model of the catalog fits one machine. */
export interface ModelFit {
  readonly name: string;
  readonly score: number;
  readonly fit_level: FitLevel;
  readonly runtime: string;
  readonly best_quant: string;
  readonly estimated_tps: number;
  /** The 90 % interval. */
  readonly estimated_tps_low: number;
  readonly estimated_tps_high: number;
  readonly memory_required_gb: number;
  /** All that engines may claim. */
  readonly memory_available_gb: number;
}

export interface MachineFits {
  /** Best score first. */
  readonly ModelFits: readonly ModelFit[];
  /** For new engines; null if the budget is unknown. */
  readonly MemoryLeftGb: number | null;
  readonly Schedulable: boolean;
}

export interface QueryRow extends MachineName {
  readonly score: number;
  readonly fitLevel: FitLevel;
  readonly stale: boolean;
  readonly schedulable: boolean;
  /** In addition to the current replicas. */
  readonly fitsNow: boolean;
  readonly model: ModelFit;
  readonly machine?: { readonly tokensPerSecond: number | null; readonly basis: string | null };
}

export interface SimulatedPlace extends MachineName {
  readonly fitLevel: FitLevel;
  /** Before the placement. */
  readonly availableMemoryGb: number;
  readonly remainingMemoryGb: number;
  readonly requiredMemoryGb: number;
  readonly quantization: string;
  readonly estimatedTps: number;
  readonly stale: boolean;
  readonly schedulable: boolean;
}

export interface ModelCost {
  readonly name: string;
  readonly namespace: string;
  readonly service: string;
  readonly placedNode: string;
  readonly phase: string;
  readonly gpu: number;
  readonly memoryRequiredGb: number;
  readonly utilizationPct: number;
  readonly replicas: number;
}

export interface NamespaceTotal {
  readonly namespace: string;
  readonly modelCount: number;
  readonly totalGpu: number;
  readonly totalMemoryGb: number;
}

interface Paged {
  readonly total: number;
  readonly nextOffset?: number;
}

export interface QueryAnswer extends Paged {
  readonly rankedNodes: readonly QueryRow[];
  readonly models: readonly string[];
  readonly nearest?: readonly string[];
}

export interface SimulateRequest extends Partial<UsableMachines> {
  readonly model: string;
  readonly quantization?: string | undefined;
  readonly context?: number | undefined;
  readonly slots?: number | undefined;
  /** Machines that are no candidates, and NAMESPACE/NAME of services whose memory counts as free. */
  readonly exclude?: readonly string[] | undefined;
}

export interface SimulateAnswer extends Paged {
  readonly rankedNodes: readonly SimulatedPlace[];
  readonly nearest?: readonly string[];
  /** The context is larger than the model can use. */
  readonly note?: string;
}

export interface Costs {
  readonly models: readonly ModelCost[];
  readonly namespaces: readonly NamespaceTotal[];
}

export function densityNodes(signal: AbortSignal): Promise<readonly DensityNode[]> {
  return allPages<DensityNode, "nodes">("nodes", `${API}/density/nodes?`, signal);
}

/** Every model with its best node. */
export function densityCatalog(signal: AbortSignal): Promise<readonly DensityModel[]> {
  const query = new URLSearchParams({ min_fit: "too_tight", max_nodes: "1" });
  return allPages<DensityModel, "models">("models", `${API}/catalog?${query}`, signal);
}

/** The models that fit an empty machine. */
export function fitsOfMachine(name: string, signal: AbortSignal): Promise<MachineFits> {
  const path = `${API}/density/nodes/${encodeURIComponent(name)}?min_fit=marginal`;
  return requestJson<MachineFits>(path, { signal });
}

export function queryDensity(model: string, signal: AbortSignal): Promise<QueryAnswer> {
  const query = new URLSearchParams({ model, min_fit: "too_tight" });
  return requestJson<QueryAnswer>(`${API}/density/query?${query}`, { signal });
}

export function simulatePlacement(body: SimulateRequest, signal: AbortSignal): Promise<SimulateAnswer> {
  return requestJson<SimulateAnswer>(`${API}/density/simulate`, { method: "POST", body, signal });
}

export async function densityCosts(signal: AbortSignal): Promise<Costs> {
  const { namespaces } = await requestJson<Costs>(`${API}/density/cost?limit=1`, { signal });
  const models = await allPages<ModelCost, "models">("models", `${API}/density/cost?`, signal);
  return { models, namespaces };
}

async function allPages<R, K extends string>(list: K, path: string, signal: AbortSignal) {
  const rows: R[] = [];
  let offset: number | undefined = 0;
  for (let page = 0; offset !== undefined && page < MAX_PAGES; page += 1) {
    const answer: Paged & { readonly [key in K]: readonly R[] } = await requestJson(
      `${path}&offset=${offset}`,
      { signal },
    );
    rows.push(...answer[list]);
    offset = answer.nextOffset;
  }
  return rows as readonly R[];
}
