/** How every model of the catalog fits every kind of machine; machines of one kind share their figures. Pure. */
import { createMatcher, createRecordOf, type Match } from "../catalog/match.ts";
import {
  familiesOn,
  QUANTIZATIONS,
  type Quantization,
  type QuantizationFamily,
} from "../catalog/quantizations.ts";
import type { CatalogRecord } from "../catalog/record.ts";
import { type BriefFitness, briefFit, isAtLeast } from "../scoring/fitness.ts";
import type { Machine } from "../scoring/machine.ts";
import { DEFAULT_CONTEXT, useCaseOf } from "../scoring/replica-fit.ts";
import { type FitLevel, fitLevel, type UseCase } from "../scoring/score.ts";

/** What is kept of a Fitness: there are as many as models times kinds of machines. */
export interface Fit {
  readonly record: CatalogRecord;
  readonly score: number;
  readonly level: FitLevel;
  readonly family: QuantizationFamily;
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
  readonly fits: FitTable;
  summary?: Summary;
}

/** By the position of the record. In columns: as objects, the fits of a large fleet were most of what the server holds. */
interface FitTable {
  readonly scores: Float64Array;
  readonly speeds: Float64Array;
  readonly claims: Float64Array;
  /** NOT_ASKED, UNSIZED, or the position of the quantization and SIZED. */
  readonly states: Uint8Array;
  asked: number;
}

const NOT_ASKED = 0;
/** A model that nothing can size. */
const UNSIZED = 1;
const SIZED = 2;

export interface Summary {
  readonly bestScore: number;
  /** Models that are not too tight. */
  readonly count: number;
}

export interface SizingOptions {
  readonly quantization?: Quantization;
  /** Tokens. */
  readonly contextSize?: number;
  /** Instead of what the model was made for. */
  readonly useCase?: UseCase;
}

export interface FitIndex {
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
  /** The one record that a source means, remembered. */
  readonly recordOf: (source: string) => CatalogRecord | undefined;
  /** Of the records that a machine has measured speeds of, which its class does not know. */
  readonly ownFits: (machine: Machine) => Map<CatalogRecord, Fit | undefined>;
}

export function createFitIndex(given: readonly CatalogRecord[]): FitIndex {
  const records = [...given].sort((a, b) => (a.name < b.name ? -1 : 1));
  const match = createMatcher(records);
  const classes = new Map<string, MachineClass>();
  const positions = new Map(records.map((record, position) => [record, position]));
  const recordOf = createRecordOf(match);
  const fitOf = (one: MachineClass, record: CatalogRecord): Fit | undefined => {
    const position = positions.get(record);
    if (position === undefined) return fitOn(record, one.machine);
    if (one.fits.states[position] === NOT_ASKED) keep(one.fits, position, fitOn(record, one.machine));
    return kept(one, position, record);
  };
  return {
    records,
    match,
    join: (machine) => {
      const { name: _, measured: __, ...rest } = machine;
      const key = JSON.stringify(rest);
      const known = classes.get(key) ?? {
        key,
        machine: { ...rest, name: "", measured: [] },
        members: 0,
        fits: emptyTable(records.length),
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
        if (one.fits.asked === records.length) continue;
        const isMissing = (_: CatalogRecord, position: number) => one.fits.states[position] === NOT_ASKED;
        for (const record of records.filter(isMissing).slice(0, count)) fitOf(one, record);
        return true;
      }
      return false;
    },
    recordOf,
    ownFits: (machine) => {
      const measured = Map.groupBy(machine.measured, ({ source }) => recordOf(source));
      // Each with its own measurements only: every fit looks up the names of all that its machine has.
      return new Map(
        [...measured].flatMap(([record, own]) =>
          record === undefined ? [] : [[record, fitOn(record, { ...machine, measured: own })] as const],
        ),
      );
    },
  };
}

function emptyTable(length: number): FitTable {
  const column = () => new Float64Array(length);
  return { scores: column(), speeds: column(), claims: column(), states: new Uint8Array(length), asked: 0 };
}

function keep(table: FitTable, position: number, fit: Fit | undefined): void {
  table.asked += 1;
  table.states[position] = fit === undefined ? UNSIZED : SIZED + positionOf(fit.quantization);
  if (fit === undefined) return;
  table.scores[position] = fit.score;
  table.speeds[position] = fit.tokensPerSecond;
  table.claims[position] = fit.claimBytes;
}

function positionOf(quantization: string): number {
  return QUANTIZATIONS.findIndex(({ name }) => name === quantization);
}

function kept({ machine, fits }: MachineClass, position: number, record: CatalogRecord): Fit | undefined {
  const quantization = QUANTIZATIONS[(fits.states[position] ?? UNSIZED) - SIZED];
  if (quantization === undefined) return undefined;
  const { budgetBytes } = machine;
  const claimBytes = fits.claims[position] ?? 0;
  return {
    record,
    score: fits.scores[position] ?? 0,
    level: fitLevel(claimBytes / budgetBytes),
    family: quantization.family,
    quantization: quantization.name,
    tokensPerSecond: fits.speeds[position] ?? 0,
    claimBytes,
    budgetBytes,
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
export function fitOn(record: CatalogRecord, machine: Machine, wish: SizingOptions = {}): Fit | undefined {
  const fitness = briefFit(record, machine, {
    useCase: wish.useCase ?? useCaseOf(record),
    contextSize: wish.contextSize ?? DEFAULT_CONTEXT,
    cacheType: "f16",
    families: familiesOn(machine.accelerator),
    quantization: wish.quantization,
  });
  return fitness === undefined ? undefined : { record, ...brief(fitness) };
}

function brief(fitness: BriefFitness): Omit<Fit, "record"> {
  const { level, family, quantization, claimBytes, budgetBytes } = fitness;
  return {
    score: fitness.score.total,
    tokensPerSecond: fitness.tokensPerSecond.value,
    level,
    family,
    quantization,
    claimBytes,
    budgetBytes,
  };
}
