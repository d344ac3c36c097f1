/** How every model of the catalogue fits every kind of machine; machines of one kind share their figures. Pure. */
import { createMatcher, type Match } from "../../src/fitness/catalog/match.ts";
import type { CatalogRecord } from "../../src/fitness/catalog/record.ts";
import { type BriefFitness, briefFit, isAtLeast } from "../../src/fitness/fitness.ts";
import type { Machine } from "../../src/fitness/machine.ts";
import { type Family, familiesOn, type Quantization } from "../../src/fitness/quantizations.ts";
import { DEFAULT_CONTEXT, useCaseOf } from "../../src/fitness/replica-fit.ts";
import type { FitLevel, UseCase } from "../../src/fitness/score.ts";

/** What is kept of a Fitness: there are as many as models times kinds of machines. */
export interface Fit {
  readonly record: CatalogRecord;
  readonly score: number;
  readonly level: FitLevel;
  readonly family: Family;
  readonly quantization: string;
  readonly tokensPerSecond: number;
  readonly claimBytes: number;
  readonly budgetBytes: number;
}

/** Machines that differ in nothing that a score knows. */
export interface MachineClass {
  readonly key: string;
  readonly machine: Machine;
  /** How many machines are of it. */
  members: number;
  /** Undefined for a model that nothing can size. */
  readonly fits: Map<CatalogRecord, Fit | undefined>;
  summary?: Summary;
}

export interface Summary {
  readonly bestScore: number;
  /** Models that are not too tight. */
  readonly count: number;
}

export interface SizeWish {
  readonly quantization?: Quantization;
  /** Tokens. */
  readonly contextSize?: number;
  /** Instead of what the model was made for. */
  readonly useCase?: UseCase;
}

export interface Fits {
  /** By name. */
  readonly records: readonly CatalogRecord[];
  readonly match: (name: string) => Match;
  /** The class of a machine, which it now belongs to. */
  readonly join: (machine: Machine) => MachineClass;
  readonly leave: (one: MachineClass) => void;
  readonly classes: () => number;
  /** Of a class, for the model's own purpose. */
  readonly fitOf: (one: MachineClass, record: CatalogRecord) => Fit | undefined;
  readonly summaryOf: (one: MachineClass) => Summary;
  /** Works out at most so many fits that nothing has asked for yet; false once there are none left. */
  readonly workAhead: (count: number) => boolean;
  /** The records that a machine has measured speeds of. */
  readonly measuredOn: (machine: Machine) => ReadonlySet<CatalogRecord>;
}

/** Of sources whose record is remembered: a fleet has the same few over and over. */
const MOST_SOURCES = 4096;

export function createFits(given: readonly CatalogRecord[]): Fits {
  const records = [...given].sort((a, b) => (a.name < b.name ? -1 : 1));
  const match = createMatcher(records);
  const classes = new Map<string, MachineClass>();
  const sources = new Map<string, CatalogRecord | undefined>();
  const recordOf = (source: string): CatalogRecord | undefined => {
    if (sources.has(source)) return sources.get(source);
    if (sources.size >= MOST_SOURCES) sources.clear();
    const found = match(source);
    const record = found.at === "one" ? found.record : undefined;
    sources.set(source, record);
    return record;
  };
  const fitOf = (one: MachineClass, record: CatalogRecord): Fit | undefined => {
    if (!one.fits.has(record)) one.fits.set(record, fitOn(record, one.machine));
    return one.fits.get(record);
  };
  return {
    records,
    match,
    join: (machine) => {
      const { name: _, measured: __, ...rest } = machine;
      const key = JSON.stringify(rest);
      const known = classes.get(key) ?? {
        ...{ key, machine: { ...rest, name: "", measured: [] }, members: 0 },
        fits: new Map<CatalogRecord, Fit | undefined>(),
      };
      known.members += 1;
      classes.set(key, known);
      return known;
    },
    leave: (one) => {
      one.members -= 1;
      if (one.members === 0) classes.delete(one.key);
    },
    classes: () => classes.size,
    fitOf,
    summaryOf: (one) => {
      one.summary ??= summarize(records.map((record) => fitOf(one, record)));
      return one.summary;
    },
    workAhead: (count) => {
      for (const one of classes.values()) {
        const missing =
          one.fits.size === records.length ? [] : records.filter((record) => !one.fits.has(record));
        for (const record of missing.slice(0, count)) fitOf(one, record);
        if (missing.length > 0) return true;
      }
      return false;
    },
    measuredOn: ({ measured }) => new Set(measured.flatMap(({ source }) => recordOf(source) ?? [])),
  };
}

export function summarize(fits: readonly (Fit | undefined)[]): Summary {
  let bestScore = 0;
  let count = 0;
  for (const fit of fits) {
    if (fit === undefined || !isAtLeast(fit.level, "marginal")) continue;
    count += 1;
    bestScore = Math.max(bestScore, fit.score);
  }
  return { bestScore, count };
}

/** On one machine, with its own measurements; by default with 8,192 tokens and the quantization that scores best. */
export function fitOn(record: CatalogRecord, machine: Machine, wish: SizeWish = {}): Fit | undefined {
  const fitness = briefFit(record, machine, {
    useCase: wish.useCase ?? useCaseOf(record),
    contextSize: wish.contextSize ?? DEFAULT_CONTEXT,
    cacheType: "f16",
    families: familiesOn(machine.accelerator),
    ...(wish.quantization === undefined ? {} : { quantization: wish.quantization }),
  });
  return fitness === undefined ? undefined : { record, ...brief(fitness) };
}

function brief(fitness: BriefFitness): Omit<Fit, "record"> {
  const { level, family, quantization, claimBytes, budgetBytes } = fitness;
  return {
    ...{ score: fitness.score.total, tokensPerSecond: fitness.tokensPerSecond.value },
    ...{ level, family, quantization, claimBytes, budgetBytes },
  };
}
