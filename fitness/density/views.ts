/** Rows of the density API from the state. They may get more fields, never fewer. Pure. */

import type { Moment } from "../../src/util/moment.ts";
import { compareText } from "../../src/util/text.ts";
import type { Quantization } from "../catalog/quantizations.ts";
import { type CatalogRecord, categoryOf } from "../catalog/record.ts";
import { llmfitRuntimeOf, type System } from "../llmfit/system.ts";
import { isAtLeast } from "../scoring/fitness.ts";
import type { Machine } from "../scoring/machine.ts";
import type { FitLevel } from "../scoring/score.ts";
import { estimate } from "../scoring/speed.ts";
import { gibOf, round } from "../scoring/units.ts";
import type { Density, DensitySite } from "./density.ts";
import { type Fit, fitOn } from "./fits.ts";
import type { DensityMachine } from "./place.ts";

const RUNTIMES = { gguf: "llamacpp", mlx: "mlx" } as const;
/** Go's zero time, which clients of the original API expect for "never". */
const NEVER = "0001-01-01T00:00:00Z";

/** A subset of llmfit's row. */
export interface FitRow {
  readonly name: string;
  readonly score: number;
  readonly fit_level: FitLevel;
  readonly runtime: "llamacpp" | "mlx";
  readonly best_quant: string;
  readonly estimated_tps: number;
  /** The 90 % interval. */
  readonly estimated_tps_low: number;
  readonly estimated_tps_high: number;
  readonly memory_required_gb: number;
  readonly memory_available_gb: number;
  readonly utilization_pct: number;
  readonly category: string;
}

export interface NodeRow {
  readonly nodeName: string;
  readonly lastSeen: string;
  readonly stale: boolean;
  readonly system: System;
  readonly modelFitCount: number;
  readonly runtimes: readonly RuntimeRow[];
  readonly installedModels: readonly InstalledRow[];
  readonly kind: "Host" | "Node";
  readonly schedulable: boolean;
  readonly bestScore: number;
  /** GiB that new engines may claim: 0 on a cordoned machine, null if the budget is unknown. */
  readonly memoryLeftGb: number | null;
  /** GiB of the budget, which `memoryLeftGb` is a part of: on a node with whole GPUs, their memory. Null if it is unknown. */
  readonly memoryBudgetGb: number | null;
  /** Problem of the machine, as a sentence. */
  readonly problem?: string;
}

export interface RuntimeRow {
  readonly name: string;
  readonly installed: boolean;
  readonly version?: string;
}

export interface InstalledRow {
  readonly name: string;
  readonly runtime: string;
}

export function fitRow(fit: Fit): FitRow {
  const { record, claimBytes, budgetBytes } = fit;
  const speed = estimate(fit.tokensPerSecond, fit.basis);
  return {
    name: record.name,
    score: round(fit.score, 1),
    fit_level: fit.level,
    runtime: RUNTIMES[fit.family],
    best_quant: fit.quantization,
    estimated_tps: round(speed.value, 1),
    estimated_tps_low: round(speed.low, 1),
    estimated_tps_high: round(speed.high, 1),
    memory_required_gb: gibOf(claimBytes) ?? 0,
    memory_available_gb: gibOf(budgetBytes) ?? 0,
    utilization_pct: percent(claimBytes, budgetBytes),
    category: categoryOf(record),
  };
}

export function nodeRow(density: Density, site: DensitySite, now: Moment): NodeRow {
  const { place } = site;
  const { bestScore, count } = density.summaryOf(site);
  const open = openBytes(density, site);
  const problem = place.staleReason ?? (place.machine.at === "known" ? undefined : place.machine.why);
  return {
    nodeName: place.name,
    lastSeen: lastSeenText(density.lastSeenMs(site, now)),
    stale: density.isStale(site, now),
    system: systemOf(site),
    modelFitCount: count,
    runtimes: runtimeRowsOf(site),
    installedModels: installedOn(site),
    kind: place.kind,
    schedulable: place.isSchedulable,
    bestScore: round(bestScore, 1),
    memoryLeftGb: open === undefined ? null : (gibOf(open) ?? 0),
    memoryBudgetGb: place.machine.at === "known" ? (gibOf(place.machine.machine.budgetBytes) ?? 0) : null,
    problem,
  };
}

/** Bytes that new engines may claim: none on a cordoned machine. Undefined if its budget is unknown. */
export function openBytes(density: Density, site: DensitySite): number | undefined {
  const left = density.leftBytes(site);
  return left === undefined || site.place.isSchedulable ? left : 0;
}

/** Subtracts the requests of our pods from a node's memory, unless a host or a node's report has the measured value. */
export function systemOf({ place, held }: DensitySite): System {
  const isMeasured = place.kind === "Host" || place.availableBytes !== undefined;
  if (isMeasured || held.size === 0) return place.system;
  const taken = [...held.values()].reduce((sum, { bytes }) => sum + bytes, 0);
  const available = round(Math.max(0, place.system.available_ram_gb - (gibOf(taken) ?? 0)), 2);
  return { ...place.system, available_ram_gb: available };
}

export function runtimeRowsOf({ place }: DensitySite): readonly RuntimeRow[] {
  return place.runtimes.map((runtime) => ({ ...runtime, installed: true }));
}

export function installedOn({ place }: DensitySite): readonly InstalledRow[] {
  return place.models.map(({ source, sizeBytes, runtime = llmfitRuntimeOf(source) }) => ({
    name: source,
    runtime,
    sizeGb: gibOf(sizeBytes),
  }));
}

/** Has the key names of the original API. */
export function nodeDetail(density: Density, site: DensitySite, now: Moment, minLevel: FitLevel): object {
  const row = nodeRow(density, site, now);
  const fits = density.fits.records.flatMap((record) => density.fitOf(site, record) ?? []);
  const shown = fits.filter(({ level }) => isAtLeast(level, minLevel));
  return {
    NodeName: row.nodeName,
    LastSeen: row.lastSeen,
    System: row.system,
    ModelFits: shown.sort(byScore).map(fitRow),
    Runtimes: row.runtimes,
    InstalledModels: row.installedModels,
    Stale: row.stale,
    Kind: row.kind,
    Schedulable: row.schedulable,
    MemoryLeftGb: row.memoryLeftGb,
    Problem: row.problem,
  };
}

export interface RankedRow {
  readonly nodeName: string;
  readonly kind: "Host" | "Node";
  readonly score: number;
  readonly fitLevel: FitLevel;
  readonly model: FitRow;
  readonly stale: boolean;
  readonly schedulable: boolean;
  /** True if it fits in addition to the current replicas, on a machine that takes new ones. */
  readonly fitsNow: boolean;
}

/** Sites grouped by class, fresh and stale ones separately. */
export interface Groups {
  readonly density: Density;
  readonly now: Moment;
  readonly fresh: readonly (readonly DensitySite[])[];
  readonly stale: readonly (readonly DensitySite[])[];
}

/** Sites with the same score for a record. */
interface Ranked {
  readonly fit: Fit;
  readonly sites: readonly DensitySite[];
}

export interface Ranking {
  readonly total: number;
  /** Computes only the requested rows. */
  readonly rows: (offset: number, limit: number) => readonly RankedRow[];
}

export function groupSites(density: Density, now: Moment, kind?: DensityMachine["kind"]): Groups {
  const sites = density
    .sites()
    .filter(({ group, place }) => group !== undefined && (kind === undefined || place.kind === kind));
  const groupsOf = (isStale: boolean) => [
    ...Map.groupBy(
      sites.filter((site) => density.isStale(site, now) === isStale),
      ({ group }) => group,
    ).values(),
  ];
  return { density, now, fresh: groupsOf(false), stale: groupsOf(true) };
}

/** One row for each model and node, best first; stale nodes last. */
export function rank(
  groups: Groups,
  records: readonly CatalogRecord[],
  {
    minLevel,
    sort,
    quantization,
  }: {
    readonly minLevel: FitLevel;
    readonly sort: "score" | "tps" | "memory";
    /** That of the file that is asked about; undefined for the best one on each machine. */
    readonly quantization?: Quantization | undefined;
  },
): Ranking {
  const order = { score: byScore, tps: bySpeed, memory: byMemory }[sort];
  const ranked = [groups.fresh, groups.stale].flatMap((sites) =>
    records
      .flatMap((record) =>
        sites.flatMap((members) => rankedOf(groups.density, members, record, quantization)),
      )
      .filter(({ fit }) => isAtLeast(fit.level, minLevel))
      .sort((a, b) => order(a.fit, b.fit)),
  );
  return {
    total: ranked.reduce((sum, { sites }) => sum + sites.length, 0),
    rows: (offset, limit) => sliceOf(groups, ranked, offset, limit),
  };
}

/** The score of the first row of `rank`; undefined if the model fits nowhere. */
export function bestScore(
  { density, fresh, stale }: Groups,
  record: CatalogRecord,
  minLevel: FitLevel,
): number | undefined {
  for (const sites of [fresh, stale]) {
    let best: number | undefined;
    for (const members of sites)
      for (const { fit } of rankedOf(density, members, record))
        if (isAtLeast(fit.level, minLevel) && (best === undefined || fit.score > best)) best = fit.score;
    if (best !== undefined) return round(best, 1);
  }
  return undefined;
}

/** Ranks the members of one class: sites with their own measurements individually, the others together. */
function rankedOf(
  density: Density,
  members: readonly DensitySite[],
  record: CatalogRecord,
  quantization?: Quantization,
): readonly Ranked[] {
  if (!density.hasOwnFits(record)) return rankedTogether(density, members, record, quantization);
  const own = members.filter((site) => density.hasOwnFit(site, record));
  const shared = members.filter((site) => !density.hasOwnFit(site, record));
  return [...own.map((site) => [site]), shared].flatMap((sites) =>
    rankedTogether(density, sites, record, quantization),
  );
}

function rankedTogether(
  density: Density,
  sites: readonly DensitySite[],
  record: CatalogRecord,
  quantization: Quantization | undefined,
): readonly Ranked[] {
  const [first] = sites;
  const fit =
    first &&
    (quantization === undefined ? density.fitOf(first, record) : fitAs(density, first, record, quantization));
  return fit === undefined ? [] : [{ fit, sites }];
}

function fitAs(
  density: Density,
  site: DensitySite,
  record: CatalogRecord,
  quantization: Quantization,
): Fit | undefined {
  const { machine } = site.place;
  if (machine.at !== "known") return undefined;
  return fitOn(record, { ...machine.machine, measured: measuredOf(density, site, record) }, { quantization });
}

/** Only the measurements of this record, because a fit matches the names of all measurements. */
export function measuredOf(
  density: Density,
  site: DensitySite,
  record: CatalogRecord | undefined,
): Machine["measured"] {
  const { machine } = site.place;
  if (record === undefined || machine.at !== "known" || !density.hasOwnFit(site, record)) return [];
  return machine.machine.measured.filter(({ source }) => density.fits.recordOf(source) === record);
}

function sliceOf(
  groups: Groups,
  ranked: readonly Ranked[],
  offset: number,
  limit: number,
): readonly RankedRow[] {
  const found: RankedRow[] = [];
  let at = 0;
  for (const { fit, sites } of ranked) {
    if (found.length >= limit) break;
    const first = Math.max(0, offset - at);
    const model = fitRow(fit);
    for (const site of sites.slice(first, first + limit - found.length))
      found.push(rankedRow(groups, fit, model, site));
    at += sites.length;
  }
  return found;
}

function rankedRow({ density, now }: Groups, fit: Fit, model: FitRow, site: DensitySite): RankedRow {
  return {
    nodeName: site.place.name,
    kind: site.place.kind,
    score: model.score,
    fitLevel: fit.level,
    model,
    stale: density.isStale(site, now),
    schedulable: site.place.isSchedulable,
    fitsNow: fit.claimBytes <= (openBytes(density, site) ?? 0),
  };
}

export interface CatalogRow {
  readonly modelName: string;
  readonly bestScore: number;
  readonly bestNode: string;
  /** Fit on the best node. */
  readonly fitLevel: FitLevel;
  /** Number of nodes that the model fits, listed or not. */
  readonly nodeCount: number;
  readonly nodes: readonly {
    readonly nodeName: string;
    readonly score: number;
    readonly fitLevel: FitLevel;
    readonly stale: boolean;
    readonly quantization: string;
    readonly requiredMemoryGb: number;
    /** All that engines may claim. */
    readonly availableMemoryGb: number;
  }[];
}

/** One model with the best of the nodes that it fits, best first; undefined if it fits nowhere. */
export function catalogRow(
  groups: Groups,
  record: CatalogRecord,
  { minLevel, maxNodes }: { readonly minLevel: FitLevel; readonly maxNodes: number },
): CatalogRow | undefined {
  const { total, rows } = rank(groups, [record], { minLevel, sort: "score" });
  const listed = rows(0, Math.min(total, Math.max(1, maxNodes)));
  const [best] = listed;
  if (best === undefined) return undefined;
  return {
    modelName: record.name,
    bestScore: best.score,
    bestNode: best.nodeName,
    fitLevel: best.fitLevel,
    nodeCount: isAtLeast(minLevel, "marginal")
      ? total
      : rank(groups, [record], { minLevel: "marginal", sort: "score" }).total,
    nodes: listed.map(({ nodeName, score, fitLevel, stale, model }) => ({
      nodeName,
      score,
      fitLevel,
      stale,
      quantization: model.best_quant,
      requiredMemoryGb: model.memory_required_gb,
      availableMemoryGb: model.memory_available_gb,
    })),
  };
}

/** One decimal; 0 if `whole` is 0. */
export function percent(part: number, whole: number): number {
  return whole > 0 && Number.isFinite(part) ? round((part / whole) * 100, 1) : 0;
}

function lastSeenText(ms: number | undefined): string {
  return ms === undefined || !Number.isFinite(ms) ? NEVER : `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

function byScore(a: Fit, b: Fit): number {
  return b.score - a.score || compareText(a.record.name, b.record.name);
}

const bySpeed = (a: Fit, b: Fit) => b.tokensPerSecond - a.tokensPerSecond || byScore(a, b);
const byMemory = (a: Fit, b: Fit) => a.claimBytes - b.claimBytes || byScore(a, b);
