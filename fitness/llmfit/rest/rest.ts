/** llmfit's REST API over one machine: the routes, their shapes and their errors. Pure. */
import { createMatcher, createRecordOf } from "../../catalog/match.ts";
import type { CatalogRecord } from "../../catalog/record.ts";
import { isAtLeast } from "../../scoring/fitness.ts";
import { bandwidthOf } from "../../scoring/gpus.ts";
import { isLoadable } from "../fit.ts";
import { type System, scoredSystem, withOverrides } from "../system.ts";
import { BadRequest, type Filters, type FiltersOptions, overridesIn, readFilters } from "./filters.ts";
import { planFor, readPlanBody } from "./plan.ts";
import { type RestRow, restRow } from "./row.ts";

/** Current facts of the machine. */
export interface RestFacts {
  readonly node: { readonly name: string; readonly os: string };
  readonly system: System;
  /** Runtimes by llmfit's names. */
  readonly runtimes: readonly { readonly name: string; readonly installed: boolean }[];
  readonly installed: readonly {
    readonly name: string;
    readonly runtime: string;
    /** Measured tokens per second. */
    readonly tokensPerSecond?: number | undefined;
  }[];
}

export interface RestRequest {
  readonly method: string;
  /** Path and query as sent. */
  readonly url: string;
  /** True for clients on this machine's loopback; only these get plans, as in llmfit. */
  readonly isLocal: boolean;
  readonly contentType: string;
  readonly body: string;
}

export interface RestResponse {
  readonly status: number;
  /** JSON, or plain text. */
  readonly body: string | Readonly<Record<string, unknown>>;
}

export type LlmfitRest = (request: RestRequest, facts: RestFacts, now: number) => RestResponse;

const API = "/api/v1";
const TOP = 5;
const BY_NAME = 20;
const EMPTY = "";

/** Indexes the catalog once. */
export function createLlmfitRest(records: readonly CatalogRecord[]): LlmfitRest {
  const recordOf = createRecordOf(createMatcher(records));
  const rows: Rows = (filters, facts, now) => {
    const measured = new Map<CatalogRecord, number | undefined>();
    for (const { name, tokensPerSecond } of facts.installed) {
      const record = recordOf(name);
      if (record !== undefined) measured.set(record, tokensPerSecond ?? measured.get(record));
    }
    const { forcedRuntime: runtime, maxContext } = filters;
    const system = scoredSystem(facts.system);
    return records
      .filter((record) => isLoadable(record, system))
      .map((record) =>
        restRow(record, system, {
          now,
          maxContext,
          runtime,
          isInstalled: measured.has(record),
          measured: measured.get(record),
        }),
      )
      .filter((row) => isAtLeast(row.fit_level, filters.minLevel) && filters.matches(row))
      .sort(filters.compare);
  };
  return (request, facts, now) => {
    try {
      return route({ request, facts, now, records, rows });
    } catch (error) {
      if (!(error instanceof BadRequest)) throw error;
      return { status: 400, body: error.isJson ? { error: error.message } : error.message };
    }
  };
}

type Rows = (filters: Filters, facts: RestFacts, now: number) => readonly RestRow[];

interface Call {
  readonly request: RestRequest;
  readonly facts: RestFacts;
  readonly now: number;
  readonly records: readonly CatalogRecord[];
  readonly rows: Rows;
}

function route(call: Call): RestResponse {
  const { method, url } = call.request;
  const [path = "", search = ""] = splitAt(url, "?");
  const query = new URLSearchParams(search);
  if (path === `${API}/plan`) return method === "POST" ? plan(call) : { status: 405, body: EMPTY };
  const handler = getRoute(path, query, call);
  if (handler === undefined) return { status: 404, body: EMPTY };
  return method === "GET" || method === "HEAD" ? handler() : { status: 405, body: EMPTY };
}

function getRoute(path: string, query: URLSearchParams, call: Call): (() => RestResponse) | undefined {
  const { node, runtimes, installed } = call.facts;
  switch (path) {
    case "/health":
      return () => ({ status: 200, body: { status: "ok", node } });
    case `${API}/system`:
      return () => {
        const system = withOverrides(call.facts.system, overridesIn(query));
        return { status: 200, body: { node, system: systemBody(system) } };
      };
    case `${API}/runtimes`:
      return () => ({ status: 200, body: { runtimes, warnings: [] } });
    case `${API}/installed`:
      return () => {
        const models = installed.map(({ name, runtime }) => ({ name, runtime }));
        return { status: 200, body: { models, warnings: [] } };
      };
    case `${API}/models`:
      return () => models(query, call, { isTop: false });
    case `${API}/models/top`:
      return () => models(query, call, { isTop: true, defaultLimit: TOP });
    default: {
      const [, name] = /^\/api\/v1\/models\/([^/]+)$/.exec(path) ?? [];
      if (name === undefined) return undefined;
      return () => models(query, call, { isTop: false, defaultLimit: BY_NAME, search: decoded(name) });
    }
  }
}

function models(query: URLSearchParams, { facts, now, rows }: Call, options: FiltersOptions): RestResponse {
  const filters = readFilters(query, options);
  const system = withOverrides(facts.system, filters.overrides);
  const all = rows(filters, { ...facts, system }, now);
  const shown = filters.limit === undefined ? all : all.slice(0, filters.limit);
  return {
    status: 200,
    body: {
      node: facts.node,
      system: systemBody(system),
      total_models: all.length,
      returned_models: shown.length,
      filters: filters.echo,
      models: shown,
    },
  };
}

function plan({ request, facts, records }: Call): RestResponse {
  if (!request.isLocal) return { status: 403, body: { error: "Plan restricted to localhost" } };
  const read = readPlanBody(request);
  if (!read.ok) return { status: read.status, body: read.why };
  const requested = read.request.model.trim().toLowerCase();
  const record = records.find(({ name }) => name.toLowerCase() === requested);
  if (record === undefined)
    throw new BadRequest(`model '${read.request.model.slice(0, 128)}' not found: use the full name`);
  const system = withOverrides(facts.system, read.request.overrides);
  return { status: 200, body: planFor(record, system, read.request) };
}

/** Adds fields of later versions. */
function systemBody(system: System): Readonly<Record<string, unknown>> {
  return {
    ...system,
    gpu_available_gb: system.unified_memory ? system.gpu_vram_gb : null,
    gpus: system.gpus.map((gpu) => ({ ...gpu, memory_bandwidth_gbps: bandwidthOf(gpu.name) ?? null })),
  };
}

function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    throw new BadRequest("Invalid URL: the name is not percent-encoded UTF-8", false);
  }
}

function splitAt(text: string, separator: string): readonly [string, string] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}
