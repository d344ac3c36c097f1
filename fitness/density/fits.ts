/** Fits of every model of the catalog on every class of machine. Machines of one class share their fits. Pure. */
import { createMatcher, createRecordOf, type Match } from "../catalog/match.ts";
import {
  familiesOn,
  QUANTIZATIONS,
  type Quantization,
  type QuantizationFamily,
} from "../catalog/quantizations.ts";
import type { CatalogRecord } from "../catalog/record.ts";
import { briefFit, isAtLeast } from "../scoring/fitness.ts";
import type { Basis, Machine } from "../scoring/machine.ts";
import { DEFAULT_CONTEXT } from "../scoring/replica-fit.ts";
import { FIT_LEVELS, type FitLevel, type UseCase } from "../scoring/score.ts";

/** The stored fields of a ModelFit; there is one per model and class. */
export interface Fit {
  readonly record: CatalogRecord;
  readonly score: number;
  readonly level: FitLevel;
  readonly family: QuantizationFamily;
  readonly quantization: string;
  readonly tokensPerSecond: number;
  readonly basis: Basis;
  readonly claimBytes: number;
  readonly budgetBytes: number;
}

/** Machines with equal inputs of the scores. */
export interface MachineClass {
  readonly key: string;
  readonly machine: Machine;
  /** Number of machines in this class. */
  members: number;
  readonly fits: FitTable;
  summary?: Summary;
}

/** Columns by the position of the record: as objects, the fits of a large fleet took most of the server's memory. */
interface FitTable {
  readonly scores: Float64Array;
  readonly speeds: Float64Array;
  readonly claims: Float64Array;
  /** NOT_ASKED, UNSIZED, or the position of the quantization and SIZED. */
  readonly states: Uint8Array;
  /** Positions in BASES. */
  readonly bases: Uint8Array;
  /** Positions in FIT_LEVELS. */
  readonly levels: Uint8Array;
  computed: number;
}

const BASES: readonly Basis[] = ["guessed", "estimated", "calibrated", "measured"];
const NOT_COMPUTED = 0;
/** A model that cannot be sized. */
const UNSIZED = 1;
const SIZED = 2;

export interface Summary {
  readonly bestScore: number;
  /** Models that are not too tight. */
  readonly count: number;
}

export interface SizingOptions {
  readonly quantization?: Quantization;
  /** Tokens, shared by the slots. */
  readonly contextSize?: number | undefined;
  readonly slots?: number | undefined;
  /** Default: the model's own use case. */
  readonly useCase?: UseCase;
}

export interface FitIndex {
  /** Sorted by name. */
  readonly records: readonly CatalogRecord[];
  readonly match: (name: string) => Match;
  /** Adds a machine to its class. */
  readonly join: (machine: Machine) => MachineClass;
  readonly leave: (one: MachineClass) => void;
  readonly classes: () => number;
  /** The fit on a class, for the model's own use case. */
  readonly fitOf: (one: MachineClass, record: CatalogRecord) => Fit | undefined;
  readonly summaryOf: (one: MachineClass) => Summary;
  /** Computes at most `count` missing fits; false if none is missing. */
  readonly precompute: (count: number) => boolean;
  /** The record of a source, cached. */
  readonly recordOf: (source: string) => CatalogRecord | undefined;
  /** Fits of the records with measured speeds of this machine, which its class does not include. */
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
    if (one.fits.states[position] === NOT_COMPUTED) storeFit(one.fits, position, fitOn(record, one.machine));
    return storedFit(one, position, record);
  };
  return {
    records,
    match,
    join: (machine) => {
      const { name: _, measured: __, deviceClass: ___, ...values } = machine;
      const key = JSON.stringify(values);
      const known = classes.get(key) ?? {
        key,
        machine: { ...values, name: "", measured: [] },
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
    precompute: (count) => {
      for (const one of classes.values()) {
        if (one.fits.computed === records.length) continue;
        const isMissing = (_: CatalogRecord, position: number) => one.fits.states[position] === NOT_COMPUTED;
        for (const record of records.filter(isMissing).slice(0, count)) fitOf(one, record);
        return true;
      }
      return false;
    },
    recordOf,
    ownFits: (machine) => {
      const measured = Map.groupBy(machine.measured, ({ source }) => recordOf(source));
      // Each fit gets only its own measurements, because it matches the names of all that its machine has.
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
  return {
    scores: column(),
    speeds: column(),
    claims: column(),
    states: new Uint8Array(length),
    bases: new Uint8Array(length),
    levels: new Uint8Array(length),
    computed: 0,
  };
}

function storeFit(table: FitTable, position: number, fit: Fit | undefined): void {
  table.computed += 1;
  table.states[position] = fit === undefined ? UNSIZED : SIZED + positionOf(fit.quantization);
  if (fit === undefined) return;
  table.scores[position] = fit.score;
  table.speeds[position] = fit.tokensPerSecond;
  table.claims[position] = fit.claimBytes;
  table.bases[position] = BASES.indexOf(fit.basis);
  table.levels[position] = FIT_LEVELS.indexOf(fit.level);
}

function positionOf(quantization: string): number {
  return QUANTIZATIONS.findIndex(({ name }) => name === quantization);
}

function storedFit(
  { machine, fits }: MachineClass,
  position: number,
  record: CatalogRecord,
): Fit | undefined {
  const quantization = QUANTIZATIONS[(fits.states[position] ?? UNSIZED) - SIZED];
  if (quantization === undefined) return undefined;
  return {
    record,
    score: fits.scores[position] ?? 0,
    level: FIT_LEVELS[fits.levels[position] ?? 0] ?? "too_tight",
    family: quantization.family,
    quantization: quantization.name,
    tokensPerSecond: fits.speeds[position] ?? 0,
    basis: BASES[fits.bases[position] ?? 0] ?? "guessed",
    claimBytes: fits.claims[position] ?? 0,
    budgetBytes: machine.budgetBytes,
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

/** The fit on one machine with its own measurements; by default with 8,192 tokens and the best quantization. */
export function fitOn(record: CatalogRecord, machine: Machine, sizing: SizingOptions = {}): Fit | undefined {
  const fitness = briefFit(record, machine, {
    useCase: sizing.useCase,
    contextSize: sizing.contextSize ?? DEFAULT_CONTEXT,
    claimedContext: sizing.contextSize,
    slots: sizing.slots,
    cacheType: "f16",
    families: familiesOn(machine.accelerator),
    quantization: sizing.quantization,
  });
  return (
    fitness && {
      ...fitness,
      record,
      score: fitness.score.total,
      tokensPerSecond: fitness.tokensPerSecond.value,
      basis: fitness.tokensPerSecond.basis,
    }
  );
}
