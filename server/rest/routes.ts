/** The routes of the density API with their input and output. */
import type { z } from "zod";
import { nearestNames } from "../../fitness/catalog/match.ts";
import { quantizationIn, quantizationNames, quantizationOf } from "../../fitness/catalog/quantizations.ts";
import type { CatalogRecord } from "../../fitness/catalog/record.ts";
import { type CostRow, cost, keyOfCost } from "../../fitness/density/cost.ts";
import type { Density, DensitySite } from "../../fitness/density/density.ts";
import { machineScorer } from "../../fitness/density/machine-score.ts";
import { simulate } from "../../fitness/density/simulate.ts";
import {
  bestScore,
  type CatalogRow,
  catalogRow,
  groupSites,
  installedOn,
  type NodeRow,
  nodeDetail,
  nodeRow,
  openBytes,
  type RankedRow,
  rank,
  runtimeRowsOf,
} from "../../fitness/density/views.ts";
import { beyondTraining } from "../../fitness/scoring/claim.ts";
import { isAtLeast } from "../../fitness/scoring/fitness.ts";
import type { FitLevel } from "../../fitness/scoring/score.ts";
import type { Moment } from "../../src/util/moment.ts";
import * as schemas from "./schemas.ts";

export interface RouteInput {
  readonly density: Density;
  readonly now: Moment;
  /** Validated by the route's schema. */
  readonly query: Readonly<Record<string, unknown>>;
  readonly body: unknown;
  /** From the path. */
  readonly name: string;
}

export type RouteResult = RouteResponse | RouteError;

export interface RouteResponse {
  readonly status: 200;
  /** All fields except the list. */
  readonly body: object;
  /** The list. Its rows are computed while they are read, so a large response is never in memory as objects. */
  readonly list?: { readonly name: string; readonly rows: Iterable<object> };
}

/** The response as one object. */
export function wholeBody({ body, list }: RouteResponse): object {
  return list === undefined ? body : { [list.name]: [...list.rows], ...body };
}

export interface RouteError {
  readonly status: 400 | 404;
  /** Plain text. */
  readonly text: string;
}

export interface RestRoute {
  readonly method: "GET" | "POST";
  /** The path in fastify's syntax. */
  readonly path: string;
  /** RBAC's name is `density/<part>`. */
  readonly part: string;
  readonly summary: string;
  readonly query: z.ZodObject;
  readonly body?: z.ZodObject;
  readonly response: z.ZodType;
  /** Description of each error status. */
  readonly refusals?: Readonly<Record<number, string>>;
  readonly answer: (input: RouteInput) => RouteResult;
  /** Key of a row for watches. If unset, a watch compares the whole response. */
  readonly keyOf?: (row: object) => string;
}

export const API = "/api/v1";
const NOT_FOUND = "node not found in fitness cache";
/** Default and maximum rows of a page, which bound time and memory of a response. */
const ROWS = 1000;
/** Default rows of a query, whose rows are large. */
const QUERY_ROWS = 250;
/** Maximum pairs of model and node on a page, whatever its limit. */
const ENTRIES = 10_000;

interface Paging {
  readonly limit?: number;
  readonly offset: number;
}

export const routes: readonly RestRoute[] = [
  {
    method: "GET",
    path: `${API}/density/nodes`,
    part: "nodes",
    query: schemas.nodesQuery,
    summary: "List all hosts and nodes with their hardware, free memory and number of models that fit.",
    response: schemas.nodesResponse,
    answer: nodes,
    keyOf: keyOfNode,
  },
  {
    method: "GET",
    path: `${API}/density/nodes/:name`,
    part: "nodes",
    query: schemas.nodeQuery,
    summary: "Get one host or node with all models that fit it.",
    response: schemas.nodeResponse,
    refusals: { 404: NOT_FOUND },
    answer: node,
  },
  {
    method: "GET",
    path: `${API}/density/runtimes`,
    part: "runtimes",
    query: schemas.plainQuery,
    summary: "List the engines installed on each host and node.",
    response: schemas.runtimesResponse,
    answer: (input) => listOf(input, (site) => ({ ...nameOf(site), runtimes: runtimeRowsOf(site) })),
    keyOf: keyOfNode,
  },
  {
    method: "GET",
    path: `${API}/density/installed-models`,
    part: "installed-models",
    query: schemas.plainQuery,
    summary: "List the models stored on each host and node.",
    response: schemas.installedResponse,
    answer: (input) => listOf(input, (site) => ({ ...nameOf(site), models: installedOn(site) }), modelsOn),
    keyOf: keyOfNode,
  },
  {
    method: "GET",
    path: `${API}/density/query`,
    part: "query",
    query: schemas.queryQuery,
    summary: "Rank the nodes for a model, with one row per node and matching model.",
    response: schemas.queryResponse,
    refusals: { 400: "model query parameter is required" },
    answer: query,
    keyOf: (row) => `${keyOfNode(row)}/${(row as RankedRow).model.name}`,
  },
  {
    method: "GET",
    path: `${API}/catalog`,
    part: "catalog",
    query: schemas.catalogQuery,
    summary: "List the catalog models that fit at least one node, with those nodes.",
    response: schemas.catalogResponse,
    answer: catalog,
    keyOf: (row) => (row as CatalogRow).modelName,
  },
  {
    method: "POST",
    path: `${API}/density/simulate`,
    part: "simulate",
    query: schemas.simulateQuery,
    body: schemas.simulateBody,
    summary: "Simulate the placement of a model next to the models already placed.",
    response: schemas.simulateResponse,
    refusals: { 400: "model field is required" },
    answer: simulated,
  },
  {
    method: "GET",
    path: `${API}/density/cost`,
    part: "cost",
    query: schemas.costQuery,
    summary: "List the resources allocated to replicas, by model and node, and by namespace.",
    response: schemas.costResponse,
    answer: costs,
    keyOf: (row) => keyOfCost(row as CostRow),
  },
];

function nodes({ density, now, query: input }: RouteInput): RouteResult {
  const { sort, ...paging } = input as unknown as Paging & { readonly sort: "name" | "score" | "memory" };
  const sites = [...density.sites()];
  if (sort === "score") sites.sort((a, b) => density.summaryOf(b).bestScore - density.summaryOf(a).bestScore);
  if (sort === "memory") sites.sort((a, b) => (openBytes(density, b) ?? -1) - (openBytes(density, a) ?? -1));
  const { rows, page } = pageOf(sites, paging, ROWS, modelsOn);
  return listed(
    "nodes",
    mapped(rows, (site) => nodeRow(density, site, now)),
    page,
  );
}

function node({ density, now, name, query: { min_fit } }: RouteInput): RouteResult {
  const site = density.site(name);
  if (site === undefined) return { status: 404, text: NOT_FOUND };
  return { status: 200, body: nodeDetail(density, site, now, min_fit as FitLevel) };
}

function listOf(
  { density, query: input }: RouteInput,
  row: (site: DensitySite) => object,
  entriesOf?: (site: DensitySite) => number,
): RouteResult {
  const { rows, page } = pageOf(density.sites(), input as unknown as Paging, ROWS, entriesOf);
  return listed("nodes", mapped(rows, row), page);
}

function query({ density, now, query: input }: RouteInput): RouteResult {
  const { model, min_fit, sort, limit, offset } = input as unknown as z.output<typeof schemas.queryQuery>;
  const match = density.fits.match(model);
  const records = match.at === "one" ? [match.record] : match.at === "several" ? match.records : [];
  // A file has one quantization, whatever would score best.
  const quantization = quantizationOf(quantizationIn(model) ?? "");
  const { total, rows } = rank(groupSites(density, now), records, { minLevel: min_fit, sort, quantization });
  const some = withMachineScores(density, records, rows(offset, Math.min(limit ?? QUERY_ROWS, ROWS)));
  const body = {
    query: model,
    models: records.map((record) => record.name),
    nearest: match.at === "none" ? nearestNames(density.fits.records, model) : undefined,
    ...nextOf(offset, some.length, total),
  };
  return listed("rankedNodes", some, body);
}

function withMachineScores(
  density: Density,
  records: readonly CatalogRecord[],
  rows: readonly RankedRow[],
): readonly object[] {
  const scoreOn = machineScorer(density);
  const sites = new Map(density.sites().map((site) => [`${site.place.kind}/${site.place.name}`, site]));
  const byName = new Map(records.map((record) => [record.name, record]));
  return rows.map((row) => {
    const site = sites.get(`${row.kind}/${row.nodeName}`);
    const record = byName.get(row.model.name);
    return { ...row, machine: site && record && scoreOn(site, record) };
  });
}

function catalog({ density, now, query: input }: RouteInput): RouteResult {
  const { min_fit, max_nodes, sort, ...paging } = input as unknown as z.output<typeof schemas.catalogQuery>;
  const maxNodes = Math.min(max_nodes ?? Number.POSITIVE_INFINITY, density.sites().length);
  const maxRows = Math.max(1, Math.floor(ENTRIES / Math.max(1, maxNodes)));
  const least = min_fit as FitLevel;
  const groups = groupSites(density, now);
  const scored = density.fits.records.flatMap((record) => {
    const score = bestScore(groups, record, least);
    return score === undefined ? [] : [{ record, score }];
  });
  if (sort === "score") scored.sort((a, b) => b.score - a.score);
  const { rows, page } = pageOf(scored, paging as Paging, maxRows);
  const models = mapped(rows, ({ record }) => catalogRow(groups, record, { minLevel: least, maxNodes }));
  return listed("models", models, page);
}

function simulated({ density, now, query: input, body }: RouteInput): RouteResult {
  const { model, quantization, context, slots, memoryGb, ...machines } = body as z.output<
    typeof schemas.simulateBody
  >;
  // A file has one quantization, whatever would score best.
  const known = quantizationOf(quantization ?? quantizationIn(model) ?? "");
  if (quantization !== undefined && known === undefined)
    return { status: 400, text: `invalid quantization value: use one of ${quantizationNames()}` };
  const match = density.fits.match(model);
  if (match.at === "several") {
    const names = match.records.map((record) => record.name).join(", ");
    return { status: 400, text: `model means several models: ${names}` };
  }
  const record = match.at === "one" ? match.record : undefined;
  const request = {
    record,
    quantization: known,
    contextSize: context,
    slots,
    memoryGb: memoryGb === undefined || memoryGb === 0 ? undefined : memoryGb,
    ...machines,
  };
  const nearest = match.at === "none" ? { nearest: nearestNames(density.fits.records, model) } : {};
  const { min_fit, ...paging } = input as unknown as z.output<typeof schemas.simulateQuery>;
  const note = record && beyondTraining(record, { claimedContext: context, slots });
  const { rankedNodes, canFitAnywhere } = simulate(density, request, now);
  const wanted = rankedNodes.filter(({ fitLevel }) => isAtLeast(fitLevel, min_fit));
  const { rows, page } = pageOf(wanted, paging as Paging, ROWS);
  return listed("rankedNodes", rows, { model, canFitAnywhere, note, ...nearest, ...page });
}

function costs({ density, query: input }: RouteInput): RouteResult {
  const { namespace, ...paging } = input as unknown as z.output<typeof schemas.costQuery>;
  const { models, namespaces } = cost(density, namespace);
  const { rows, page } = pageOf(models, paging as Paging, ROWS);
  return listed("models", rows, { namespaces, ...page });
}

/** At least one row, and at most ENTRIES entries. */
function pageOf<T>(
  all: readonly T[],
  { limit, offset }: Paging,
  maxRows: number,
  entriesOf: (row: T) => number = () => 0,
) {
  const rows: T[] = [];
  let entries = 0;
  for (const row of all.slice(offset, offset + Math.min(limit ?? maxRows, maxRows))) {
    entries += entriesOf(row);
    if (entries > ENTRIES && rows.length > 0) break;
    rows.push(row);
  }
  return { rows, page: nextOf(offset, rows.length, all.length) };
}

function nextOf(offset: number, shown: number, total: number) {
  const next = offset + shown;
  return shown > 0 && next < total ? { total, nextOffset: next } : { total };
}

function listed(name: string, rows: Iterable<object>, body: object): RouteResponse {
  return { status: 200, body, list: { name, rows } };
}

function* mapped<T>(all: readonly T[], rowOf: (one: T) => object | undefined): Iterable<object> {
  for (const one of all) {
    const row = rowOf(one);
    if (row !== undefined) yield row;
  }
}

function nameOf({ place }: DensitySite): Pick<NodeRow, "nodeName" | "kind"> {
  return { nodeName: place.name, kind: place.kind };
}

/** A Host and a Node of one name are two rows. */
function keyOfNode(row: object): string {
  const { kind, nodeName } = row as NodeRow;
  return `${kind}/${nodeName}`;
}

function modelsOn({ place }: DensitySite): number {
  return place.models.length;
}
