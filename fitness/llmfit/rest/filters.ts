/** Parses the query of llmfit's model routes: filters, order, limit. Pure. */
import { isAtLeast } from "../../scoring/fitness.ts";
import type { LlmfitFitLevel, LlmfitRuntime } from "../fit.ts";
import type { Overrides } from "../system.ts";
import type { RestRow } from "./row.ts";

/** A refusal as text (like the original's framework for parse errors) or as JSON (like the original itself). */
export class BadRequest extends Error {
  readonly isJson: boolean;
  constructor(message: string, isJson = true) {
    super(message);
    this.isJson = isJson;
  }
}

export interface Filters {
  /** Rows to return; undefined: all. */
  readonly limit: number | undefined;
  readonly minLevel: LlmfitFitLevel;
  readonly maxContext: number | undefined;
  readonly forcedRuntime: LlmfitRuntime | undefined;
  readonly overrides: Overrides;
  readonly matches: (row: RestRow) => boolean;
  readonly compare: (a: RestRow, b: RestRow) => number;
  /** The request's parameters, unchanged. */
  readonly echo: Readonly<Record<string, unknown>>;
}

const LEVELS: Readonly<Record<string, LlmfitFitLevel>> = {
  perfect: "perfect",
  good: "good",
  marginal: "marginal",
  too_tight: "too_tight",
  tootight: "too_tight",
  tight: "too_tight",
};
const FORCED: Readonly<Record<string, LlmfitRuntime>> = {
  mlx: "mlx",
  llamacpp: "llamacpp",
  "llama.cpp": "llamacpp",
  llama_cpp: "llamacpp",
  vllm: "vllm",
};
const RUNTIMES: Readonly<Record<string, LlmfitRuntime | "any">> = { any: "any", ...FORCED };
const CATEGORIES: Readonly<Record<string, string>> = {
  general: "General",
  coding: "Coding",
  code: "Coding",
  reasoning: "Reasoning",
  reason: "Reasoning",
  chat: "Chat",
  multimodal: "Multimodal",
  vision: "Multimodal",
  embedding: "Embedding",
  embed: "Embedding",
};

type Compare = Filters["compare"];
const descending =
  (value: (row: RestRow) => number): Compare =>
  (a, b) =>
    value(b) - value(a);
const byScore = descending(({ score }) => score);
const byTime = descending(({ release_date }) => Date.parse(release_date ?? "") || Number.NEGATIVE_INFINITY);
const byUsable = descending(({ usable_context }) => usable_context);
const byWindow = descending(({ context_length }) => context_length);
const byCategory: Compare = (a, b) => (a.category < b.category ? -1 : a.category > b.category ? 1 : 0);
const ORDERS: Readonly<Record<string, Compare>> = {
  score: byScore,
  tps: (a, b) => b.estimated_tps - a.estimated_tps || byScore(a, b),
  params: descending(({ params_b }) => params_b),
  mem: descending(({ utilization_pct }) => utilization_pct),
  ctx: (a, b) => byUsable(a, b) || byWindow(a, b),
  date: (a, b) => (a.release_date === b.release_date ? 0 : byTime(a, b)),
  use_case: (a, b) => byCategory(a, b) || byScore(a, b),
};
const SORTS: Readonly<Record<string, string>> = {
  score: "score",
  tps: "tps",
  tokens: "tps",
  throughput: "tps",
  params: "params",
  parameters: "params",
  mem: "mem",
  memory: "mem",
  mem_pct: "mem",
  utilization: "mem",
  ctx: "ctx",
  context: "ctx",
  date: "date",
  release: "date",
  released: "date",
  use_case: "use_case",
  use: "use_case",
  usecase: "use_case",
};

export interface FiltersOptions {
  readonly isTop: boolean;
  readonly defaultLimit?: number;
  /** Search text of the path; replaces the query's. */
  readonly search?: string;
}

/** Throws BadRequest. */
export function readFilters(query: URLSearchParams, { isTop, ...defaults }: FiltersOptions): Filters {
  const text = (name: string): string | undefined => single(query, name);
  const limit = countIn(query, "limit") ?? countIn(query, "n", "top");
  const perfect = booleanIn(query, "perfect");
  const minFit = text("min_fit");
  const includeTooTight = booleanIn(query, "include_too_tight");
  const level = oneOf("min_fit", minFit, LEVELS, "perfect|good|marginal|too_tight");
  const sort = oneOf("sort", text("sort"), SORTS, "score|tps|params|mem|ctx|date|use_case") ?? "score";
  const search = defaults.search ?? text("search");
  const maxContext = countIn(query, "max_context");
  const overrides = overridesIn(query);
  const order = ORDERS[sort] ?? byScore;
  return {
    limit: limit ?? defaults.defaultLimit,
    minLevel: minLevelOf({ isTop, level, perfect: perfect === true, includeTooTight }),
    maxContext: maxContext === 0 ? undefined : maxContext,
    forcedRuntime: oneOf("force_runtime", text("force_runtime"), FORCED, "mlx|llamacpp|vllm"),
    overrides,
    matches: matcherOf(query, search?.toLowerCase()),
    compare: (a, b) => isTooTight(a) - isTooTight(b) || order(a, b) || (a.name < b.name ? -1 : 1),
    echo: {
      ...Object.fromEntries(
        ["runtime", "use_case", "provider", "sort"].map((name) => [name, text(name) ?? null]),
      ),
      limit: limit ?? null,
      perfect: perfect ?? null,
      min_fit: minFit ?? null,
      search: search ?? null,
      max_context: maxContext ?? null,
      include_too_tight: includeTooTight ?? null,
      cpu_cores: overrides.cpuCores ?? null,
      ram_gb: overrides.ramGb ?? null,
      vram_gb: overrides.vramGb ?? null,
      top_only: isTop,
    },
  };
}

function matcherOf(query: URLSearchParams, sought: string | undefined): Filters["matches"] {
  const runtime = oneOf("runtime", single(query, "runtime"), RUNTIMES, "any|mlx|llamacpp|vllm");
  const uses = "general|coding|reasoning|chat|multimodal|embedding";
  const category = oneOf("use_case", single(query, "use_case"), CATEGORIES, uses);
  const provider = single(query, "provider")?.toLowerCase();
  const licenses = listIn(single(query, "license"));
  return (row) =>
    (runtime === undefined || runtime === "any" || row.runtime === runtime) &&
    (category === undefined || row.category === category) &&
    (provider === undefined || isIn(provider, row.provider)) &&
    (licenses === undefined || licenses.includes((row.license ?? "").toLowerCase())) &&
    (sought === undefined ||
      isIn(sought, row.name, row.provider, row.parameter_count, row.use_case, row.category));
}

/** Throws BadRequest. */
export function overridesIn(query: URLSearchParams): Overrides {
  return checkedOverrides({
    ramGb: numberIn(query, "ram_gb", "ram"),
    vramGb: numberIn(query, "vram_gb", "memory"),
    cpuCores: countIn(query, "cpu_cores"),
  });
}

/** Throws BadRequest. */
export function checkedOverrides({ ramGb, vramGb, cpuCores }: Overrides): Overrides {
  if (ramGb !== undefined && !(ramGb > 0 && Number.isFinite(ramGb)))
    throw new BadRequest("invalid ram_gb value: expected a positive number");
  if (vramGb !== undefined && !(vramGb >= 0 && Number.isFinite(vramGb)))
    throw new BadRequest("invalid vram_gb value: expected a non-negative number");
  if (cpuCores !== undefined && cpuCores < 1)
    throw new BadRequest("invalid cpu_cores value: expected a positive integer");
  return { ramGb, vramGb, cpuCores };
}

interface LevelOptions {
  readonly isTop: boolean;
  readonly level: LlmfitFitLevel | undefined;
  readonly perfect: boolean;
  readonly includeTooTight: boolean | undefined;
}

/** The strictest requested level. Too tight models are included only on request, and never in the top list. */
function minLevelOf({ isTop, level, perfect, includeTooTight }: LevelOptions): LlmfitFitLevel {
  if (perfect) return "perfect";
  const requested = level ?? (includeTooTight === true ? "too_tight" : "marginal");
  const excludesTooTight = isTop || includeTooTight === false;
  return excludesTooTight && isAtLeast("marginal", requested) ? "marginal" : requested;
}

function isTooTight({ fit_level }: RestRow): number {
  return fit_level === "too_tight" ? 1 : 0;
}

/** Ignores case; `lower` is in lower case. */
function isIn(lower: string, ...texts: readonly string[]): boolean {
  return texts.some((text) => text.toLowerCase().includes(lower));
}

function listIn(text: string | undefined): readonly string[] | undefined {
  const parts = text?.split(",").map((part) => part.trim().toLowerCase());
  const named = parts?.filter((part) => part !== "");
  return named === undefined || named.length === 0 ? undefined : named;
}

function oneOf<T>(
  name: string,
  text: string | undefined,
  values: Readonly<Record<string, T>>,
  uses: string,
): T | undefined {
  if (text === undefined) return undefined;
  const key = text.trim().toLowerCase();
  const found = Object.hasOwn(values, key) ? values[key] : undefined;
  if (found === undefined) throw new BadRequest(`invalid ${name} value: use ${uses}`);
  return found;
}

/** The only value among these names. */
function single(query: URLSearchParams, ...names: readonly string[]): string | undefined {
  const all = names.flatMap((name) => query.getAll(name));
  if (all.length > 1) throw undeserializable(names[0] ?? "", "given more than once");
  return all[0];
}

function booleanIn(query: URLSearchParams, name: string): boolean | undefined {
  const text = single(query, name);
  if (text === undefined) return undefined;
  if (text === "true" || text === "false") return text === "true";
  throw undeserializable(name, "expected `true` or `false`");
}

function countIn(query: URLSearchParams, ...names: readonly string[]): number | undefined {
  const text = single(query, ...names);
  if (text === undefined) return undefined;
  if (!/^\+?\d{1,9}$/.test(text)) throw undeserializable(names[0] ?? "", "expected a whole number");
  return Number(text);
}

function numberIn(query: URLSearchParams, ...names: readonly string[]): number | undefined {
  const text = single(query, ...names);
  if (text === undefined) return undefined;
  const isNumber = /^[+-]?((\d{1,30}(\.\d{0,30})?|\.\d{1,30})(e[+-]?\d{1,3})?|inf|nan)$/i.test(text);
  if (!isNumber) throw undeserializable(names[0] ?? "", "expected a number");
  return Number(text);
}

function undeserializable(name: string, why: string): BadRequest {
  return new BadRequest(`Failed to deserialize query string: ${name}: ${why}`, false);
}
