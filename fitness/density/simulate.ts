/** What would happen if a model were placed now: beside what each machine already holds. Pure. */
import type { Moment } from "../../src/util/moment.ts";
import type { CatalogRecord } from "../catalog/record.ts";
import type { Machine } from "../scoring/machine.ts";
import { type FitLevel, fitLevel } from "../scoring/score.ts";
import { gibOf, round } from "../scoring/units.ts";
import { compareNames, type Density, type DensitySite } from "./density.ts";
import { fitOn, type SizingOptions } from "./fits.ts";
import { percent } from "./views.ts";

export interface SimulateRequest extends SizingOptions {
  /** Undefined: only the memory that is asked for counts. */
  readonly record: CatalogRecord | undefined;
  /** GiB, in place of the claim; required where there is no record. */
  readonly memoryGb?: number;
}

export interface SimulatedRow {
  readonly nodeName: string;
  readonly currentScore: number;
  readonly fitLevel: FitLevel;
  readonly availableMemoryGb: number;
  readonly requiredMemoryGb: number;
  readonly remainingMemoryGb: number;
  readonly utilizationPct: number;
  /** Empty where only memory was asked for. */
  readonly quantization: string;
  readonly estimatedTps: number;
  readonly stale: boolean;
  readonly schedulable: boolean;
}

const GIB = 1024 ** 3;

/** The best first; what does not fit last. */
export function simulate(
  density: Density,
  wish: SimulateRequest,
  now: Moment,
): { readonly rankedNodes: readonly SimulatedRow[]; readonly canFitAnywhere: boolean } {
  const rankedNodes = density
    .sites()
    .flatMap((site) => rowOf(density, site, wish, now) ?? [])
    .sort(
      (a, b) =>
        rankOf(a) - rankOf(b) || b.currentScore - a.currentScore || compareNames(a.nodeName, b.nodeName),
    );
  const canFitAnywhere = rankedNodes.some((row) => rankOf(row) === 0);
  return { rankedNodes, canFitAnywhere };
}

function rankOf({ fitLevel: level, stale, schedulable }: SimulatedRow): number {
  if (level === "too_tight") return 2;
  return stale || !schedulable ? 1 : 0;
}

/** Undefined where the machine or the model cannot be sized. */
function rowOf(
  density: Density,
  site: DensitySite,
  wish: SimulateRequest,
  now: Moment,
): SimulatedRow | undefined {
  const left = density.leftBytes(site);
  const { machine } = site.place;
  if (left === undefined || machine.at !== "known") return undefined;
  const { record, memoryGb, ...size } = wish;
  // A machine without memory has no score; a byte is as good as none.
  const rest = {
    ...machine.machine,
    budgetBytes: Math.max(1, left),
    measured: measuredOf(density, site, record),
  };
  const fit = record === undefined ? undefined : fitOn(record, rest, size);
  if (fit === undefined && memoryGb === undefined) return undefined;
  const required = memoryGb === undefined ? (fit?.claimBytes ?? 0) : memoryGb * GIB;
  const level = fitLevel(required / rest.budgetBytes);
  return {
    nodeName: site.place.name,
    currentScore: level === "too_tight" ? 0 : round(fit?.score ?? 0, 1),
    fitLevel: level,
    availableMemoryGb: gibOf(left) ?? 0,
    requiredMemoryGb: gibOf(required) ?? round(required / GIB, 2),
    remainingMemoryGb: gibOf(Math.max(0, left - required)) ?? 0,
    utilizationPct: percent(required, left),
    quantization: fit?.quantization ?? "",
    estimatedTps: round(fit?.tokensPerSecond ?? 0, 1),
    stale: density.isStale(site, now),
    schedulable: site.place.isSchedulable,
  };
}

/** What the machine has measured of this one record: a fit looks up the names of all that it is given. */
function measuredOf(
  density: Density,
  site: DensitySite,
  record: CatalogRecord | undefined,
): Machine["measured"] {
  const { machine } = site.place;
  if (record === undefined || machine.at !== "known" || !density.hasOwnFit(site, record)) return [];
  return machine.machine.measured.filter(({ source }) => density.fits.recordOf(source) === record);
}
