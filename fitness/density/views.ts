/** What the routes answer, from the state: the shapes of the density API with more fields, never fewer. Pure. */
import type { Moment } from "../../src/util/moment.ts";
import { categoryOf } from "../catalog/category.ts";
import type { CatalogRecord } from "../catalog/record.ts";
import { llmfitRuntimeOf, type System } from "../llmfit/system.ts";
import { isAtLeast } from "../scoring/fitness.ts";
import type { FitLevel } from "../scoring/score.ts";
import { gibOf, round } from "../scoring/units.ts";
import { compareNames, type Density, type DensitySite } from "./density.ts";
import type { Fit, MachineClass } from "./fits.ts";

const RUNTIMES = { gguf: "llamacpp", mlx: "mlx" } as const;
/** Go's zero time: what the seed prints for never. */
const NEVER = "0001-01-01T00:00:00Z";

/** The fields of llmfit's row that are kept. */
export interface FitRow {
  readonly name: string;
  readonly score: number;
  readonly fit_level: FitLevel;
  readonly runtime: "llamacpp" | "mlx";
  readonly best_quant: string;
  readonly estimated_tps: number;
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
  /** GiB that new engines may claim; null where the budget is not known. */
  readonly memoryLeftGb: number | null;
  /** What is wrong with it, in words. */
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
  return {
    name: record.name,
    score: round(fit.score, 1),
    fit_level: fit.level,
    runtime: RUNTIMES[fit.family],
    best_quant: fit.quantization,
    estimated_tps: round(fit.tokensPerSecond, 1),
    memory_required_gb: gibOf(claimBytes) ?? 0,
    memory_available_gb: gibOf(budgetBytes) ?? 0,
    utilization_pct: percent(claimBytes, budgetBytes),
    category: categoryOf(record),
  };
}

export function nodeRow(density: Density, site: DensitySite, now: Moment): NodeRow {
  const { place } = site;
  const { bestScore, count } = density.summaryOf(site);
  const left = density.leftBytes(site);
  const problem = place.silence ?? (place.machine.at === "known" ? undefined : place.machine.why);
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
    memoryLeftGb: left === undefined ? null : (gibOf(left) ?? 0),
    problem,
  };
}

/** What a node has free, less what our pods have asked for; a host and a node's report say it themselves. */
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
  return place.models.map(({ source, sizeBytes, runtime = llmfitRuntimeOf(source) }) => {
    const sizeGb = gibOf(sizeBytes);
    return { name: source, runtime, sizeGb };
  });
}

/** With the keys that the seed's cache has. */
export function nodeDetail(density: Density, site: DensitySite, now: Moment, least: FitLevel): object {
  const row = nodeRow(density, site, now);
  const fits = density.fits.records.flatMap((record) => density.fitOf(site, record) ?? []);
  const shown = fits.filter(({ level }) => isAtLeast(level, least));
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
  /** It fits beside what is there already. */
  readonly fitsNow: boolean;
}

/** Sites of one class: fresh ones first, silent ones after all of them. */
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
  /** Only what is asked for is worked out. */
  readonly rows: (offset: number, limit: number) => readonly RankedRow[];
}

export function groupSites(density: Density, now: Moment): Groups {
  const fresh = new Map<MachineClass, DensitySite[]>();
  const stale = new Map<MachineClass, DensitySite[]>();
  for (const site of density.sites()) {
    if (site.group === undefined) continue;
    const groups = density.isStale(site, now) ? stale : fresh;
    const members = groups.get(site.group);
    if (members === undefined) groups.set(site.group, [site]);
    else members.push(site);
  }
  return { density, now, fresh: [...fresh.values()], stale: [...stale.values()] };
}

/** One row for each model and node, the best first; nodes that are silent come last. */
export function rank(
  groups: Groups,
  records: readonly CatalogRecord[],
  { least, sort }: { readonly least: FitLevel; readonly sort: "score" | "tps" | "memory" },
): Ranking {
  const order = { score: byScore, tps: bySpeed, memory: byMemory }[sort];
  const ranked = [groups.fresh, groups.stale].flatMap((some) =>
    records
      .flatMap((record) => some.flatMap((members) => rankedOf(groups.density, members, record)))
      .filter(({ fit }) => isAtLeast(fit.level, least))
      .sort((a, b) => order(a.fit, b.fit)),
  );
  return {
    total: ranked.reduce((sum, { sites }) => sum + sites.length, 0),
    rows: (offset, limit) => sliceOf(groups, ranked, offset, limit),
  };
}

/** Of the first row that `rank` would give; undefined where the model fits nowhere. */
export function bestScore(
  { density, fresh, stale }: Groups,
  record: CatalogRecord,
  least: FitLevel,
): number | undefined {
  for (const some of [fresh, stale]) {
    let best: number | undefined;
    for (const members of some)
      for (const { fit } of rankedOf(density, members, record))
        if (isAtLeast(fit.level, least) && (best === undefined || fit.score > best)) best = fit.score;
    if (best !== undefined) return round(best, 1);
  }
  return undefined;
}

/** The members of one class: those with measurements of their own one by one, the others together. */
function rankedOf(
  density: Density,
  members: readonly DensitySite[],
  record: CatalogRecord,
): readonly Ranked[] {
  if (!density.hasOwnFits(record)) return rankedTogether(density, members, record);
  const own = members.filter((site) => density.hasOwnFit(site, record));
  const shared = members.filter((site) => !density.hasOwnFit(site, record));
  return [...own.map((site) => [site]), shared].flatMap((sites) => rankedTogether(density, sites, record));
}

function rankedTogether(
  density: Density,
  sites: readonly DensitySite[],
  record: CatalogRecord,
): readonly Ranked[] {
  const fit = sites[0] === undefined ? undefined : density.fitOf(sites[0], record);
  return fit === undefined ? [] : [{ fit, sites }];
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
    fitsNow: fit.claimBytes <= (density.leftBytes(site) ?? 0),
  };
}

export interface CatalogRow {
  readonly modelName: string;
  readonly bestScore: number;
  readonly bestNode: string;
  /** On the best node. */
  readonly fitLevel: FitLevel;
  readonly nodes: readonly {
    readonly nodeName: string;
    readonly score: number;
    readonly fitLevel: FitLevel;
    readonly stale: boolean;
  }[];
}

/** One model with the nodes that it fits, the best first; undefined where it fits nowhere. */
export function catalogRow(groups: Groups, record: CatalogRecord, least: FitLevel): CatalogRow | undefined {
  const { total, rows } = rank(groups, [record], { least, sort: "score" });
  const all = rows(0, total);
  const [best] = all;
  if (best === undefined) return undefined;
  return {
    modelName: record.name,
    bestScore: best.score,
    bestNode: best.nodeName,
    fitLevel: best.fitLevel,
    nodes: all.map(({ nodeName, score, fitLevel, stale }) => ({ nodeName, score, fitLevel, stale })),
  };
}

export interface CostRow {
  readonly name: string;
  readonly namespace: string;
  readonly placedNode: string;
  readonly phase: string;
  readonly gpu: number;
  readonly memoryRequiredGb: number;
  readonly utilizationPct: number;
  readonly fitnessScore: number;
  readonly service: string;
  readonly replicas: number;
}

export interface NamespaceCost {
  readonly namespace: string;
  readonly modelCount: number;
  readonly totalGpu: number;
  readonly totalMemoryGb: number;
}

export interface Cost {
  readonly models: readonly CostRow[];
  readonly namespaces: readonly NamespaceCost[];
}

/** What replicas really hold: one row for each service and node, and the sums of each namespace. */
export function cost(density: Density, wanted?: string): Cost {
  const { models, namespaces } = density.once(costOfAll);
  if (wanted === undefined) return { models, namespaces };
  const isWanted = ({ namespace }: { readonly namespace: string }) => namespace === wanted;
  return { models: models.filter(isWanted), namespaces: namespaces.filter(isWanted) };
}

function costOfAll(density: Density): Cost {
  const models = density
    .sites()
    .flatMap((site) => costsOn(density, site))
    .map((row) => ({ row, key: keyOfCost(row) }))
    .sort((a, b) => b.row.memoryRequiredGb - a.row.memoryRequiredGb || compareNames(a.key, b.key))
    .map(({ row }) => row);
  const namespaces = Map.groupBy(models, ({ namespace }) => namespace);
  return {
    models,
    namespaces: [...namespaces]
      .map(([namespace, rows]) => ({
        namespace,
        modelCount: new Set(rows.map(({ name }) => name)).size,
        totalGpu: rows.reduce((sum, { gpu }) => sum + gpu, 0),
        totalMemoryGb: round(
          rows.reduce((sum, row) => sum + row.memoryRequiredGb, 0),
          2,
        ),
      }))
      .sort((a, b) => b.totalMemoryGb - a.totalMemoryGb || compareNames(a.namespace, b.namespace)),
  };
}

export function keyOfCost({ namespace, name, service, placedNode }: CostRow): string {
  return `${namespace}/${name}/${service}/${placedNode}`;
}

function costsOn(density: Density, site: DensitySite): readonly CostRow[] {
  const budget = site.place.machine.at === "known" ? site.place.machine.machine.budgetBytes : 0;
  const services = Map.groupBy(site.held.values(), ({ namespace, service }) => `${namespace}/${service}`);
  return [...services.values()].flatMap((all) => {
    const [first] = all;
    if (first === undefined) return [];
    const { name, record } = density.modelOf(first);
    const bytes = all.reduce((sum, one) => sum + one.bytes, 0);
    const fit = record === undefined ? undefined : density.fitOf(site, record);
    return [
      {
        name,
        namespace: first.namespace,
        placedNode: site.place.name,
        phase: all.find(({ phase }) => phase !== "Ready")?.phase ?? "Ready",
        gpu: all.reduce((sum, { gpus }) => sum + gpus, 0),
        memoryRequiredGb: gibOf(bytes) ?? 0,
        utilizationPct: percent(bytes, budget),
        fitnessScore: fit === undefined ? 0 : round(fit.score, 1),
        service: first.service,
        replicas: all.length,
      },
    ];
  });
}

/** With one decimal; 0 where there is nothing to take a part of. */
export function percent(part: number, whole: number): number {
  return whole > 0 && Number.isFinite(part) ? round((part / whole) * 100, 1) : 0;
}

export function lastSeenText(ms: number | undefined): string {
  return ms === undefined || !Number.isFinite(ms) ? NEVER : `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

function byScore(a: Fit, b: Fit): number {
  return b.score - a.score || compareNames(a.record.name, b.record.name);
}

const bySpeed = (a: Fit, b: Fit) => b.tokensPerSecond - a.tokensPerSecond || byScore(a, b);
const byMemory = (a: Fit, b: Fit) => a.claimBytes - b.claimBytes || byScore(a, b);
