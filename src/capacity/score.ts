/** One score for every machine that could run a model: its speed, minus its load and its cost. Hosts, nodes and the scheduler extender use it. Pure. */

import { z } from "zod";
import { compareText } from "../util/text.ts";

export interface ScoreWeights {
  readonly tps: number;
  readonly utilization: number;
  readonly cost: number;
}

export const DEFAULT_SCORE_WEIGHTS: ScoreWeights = { tps: 0.7, utilization: 0.2, cost: 0.1 };

const weight = z.coerce.number("must be a number from 0 to 1").min(0).max(1);
const pair = z
  .string()
  .regex(
    /^(tps|utilization|cost)=[0-9.]+$/,
    "must be tps, utilization or cost and a weight, such as tps=0.7",
  );
const DEFAULT_TEXT = Object.entries(DEFAULT_SCORE_WEIGHTS)
  .map(([term, value]) => `${term}=${value}`)
  .join(",");

/** For example `tps=0.7,utilization=0.2,cost=0.1`. A term that is not named keeps its default. */
export const scoreWeightsSchema = z
  .string()
  .default(DEFAULT_TEXT)
  .transform((text) => text.split(",").map((one) => one.trim()))
  .pipe(z.array(pair).max(3))
  .transform((list) => ({
    ...DEFAULT_SCORE_WEIGHTS,
    ...Object.fromEntries(list.map((one) => one.split("="))),
  }))
  .pipe(z.object({ tps: weight, utilization: weight, cost: weight }))
  .refine(({ tps, utilization, cost }) => tps + utilization + cost > 0, "one weight must be greater than 0")
  .describe(
    "Weights of the terms in the score of machines, each from 0 to 1, separated by commas: speed, utilization, cost.",
  );

/** Inputs of the score of a machine. Impossible values count as unknown. */
export interface ScoreInputs {
  /** Generation speed of a single request, and its origin. */
  readonly tokensPerSecond?: { readonly value: number; readonly basis: string } | undefined;
  /** Share of its capacity that is in use, from 0 to 1. */
  readonly utilization?: number | undefined;
  /** In any unit that all machines share. */
  readonly cost?: number | undefined;
}

export interface ScoredMachine extends ScoreInputs {
  readonly name: string;
}

/** Maxima over all candidates; undefined if no candidate states the value. */
export interface ScoreScale {
  readonly tokensPerSecond: number | undefined;
  readonly utilization: number | undefined;
  readonly cost: number | undefined;
}

/** Share of a term whose datum is missing for this machine and known for another: neither good nor bad. */
const NEUTRAL = 0.5;

type Term = keyof ScoreScale;

export interface MachineScore {
  readonly name: string;
  /** `tps × speed − utilization × load − cost × price`: from −0.3 to 0.7 with the default weights. */
  readonly score: number;
  /** For example "0.49: 41 of 52 tokens/s (measured), 25% in use, cost 2 of 4". */
  readonly why: string;
  /** Data that this machine lacks and another one has; the term then counts half. */
  readonly missing: readonly Term[];
}

export function scoreScale(machines: Iterable<ScoreInputs>): ScoreScale {
  const scale: { -readonly [T in Term]: number | undefined } = {
    tokensPerSecond: undefined,
    utilization: undefined,
    cost: undefined,
  };
  for (const machine of machines) {
    for (const term of TERMS) {
      const value = datumOf(machine, term);
      if (value !== undefined) scale[term] = Math.max(scale[term] ?? 0, value);
    }
  }
  return scale;
}

/** Scores one machine. Every term is limited to its range, so no input gives a score outside the formula's. */
export function scoreMachine(
  machine: ScoredMachine,
  scale: ScoreScale,
  weights: ScoreWeights = DEFAULT_SCORE_WEIGHTS,
): MachineScore {
  const score = scoreOf(machine, scale, weights);
  const missing = TERMS.filter((term) => scale[term] !== undefined && datumOf(machine, term) === undefined);
  const why = TERMS.map((term) => termText(machine, scale, term)).filter((text) => text !== "");
  return {
    name: machine.name,
    score,
    why: `${score.toFixed(2)}: ${why.join(", ") || "nothing is known"}`,
    missing,
  };
}

/** The score alone. */
export function scoreOf(machine: ScoreInputs, scale: ScoreScale, weights: ScoreWeights): number {
  return (
    weights.tps * shareOf(machine, scale, "tokensPerSecond") -
    weights.utilization * shareOf(machine, scale, "utilization") -
    weights.cost * shareOf(machine, scale, "cost")
  );
}

/** Scores all machines, the best first; equal ones by name. */
export function scoreMachines(
  machines: readonly ScoredMachine[],
  weights: ScoreWeights = DEFAULT_SCORE_WEIGHTS,
): MachineScore[] {
  const scale = scoreScale(machines);
  return machines
    .map((machine) => scoreMachine(machine, scale, weights))
    .sort((a, b) => b.score - a.score || compareText(a.name, b.name));
}

/** Maps the range of the formula to 0 to 1, for terms and protocols that know no negative scores. */
export function scoreRank(score: number, weights: ScoreWeights = DEFAULT_SCORE_WEIGHTS): number {
  const { tps, utilization, cost } = weights;
  const range = tps + utilization + cost;
  return range <= 0 ? 0 : Math.min(1, Math.max(0, (score + utilization + cost) / range));
}

const TERMS: readonly Term[] = ["tokensPerSecond", "utilization", "cost"];

/** Undefined if the value is unknown or impossible. */
function datumOf(machine: ScoreInputs, term: Term): number | undefined {
  const value = term === "tokensPerSecond" ? machine.tokensPerSecond?.value : machine[term];
  if (value === undefined || !Number.isFinite(value) || value < 0) return undefined;
  return term === "utilization" ? Math.min(1, value) : value;
}

function shareOf(machine: ScoreInputs, scale: ScoreScale, term: Term): number {
  const most = scale[term];
  if (most === undefined) return 0;
  const value = datumOf(machine, term);
  if (value === undefined) return NEUTRAL;
  if (term === "utilization") return value;
  return most === 0 ? 0 : Math.min(1, value / most);
}

function termText(machine: ScoreInputs, scale: ScoreScale, term: Term): string {
  const most = scale[term];
  if (most === undefined) return "";
  const value = datumOf(machine, term);
  const short = (value: number) => Number(value.toPrecision(3));
  if (term === "utilization")
    return value === undefined ? "load unknown" : `${Math.round(value * 100)}% in use`;
  if (term === "cost") return value === undefined ? "cost unknown" : `cost ${short(value)} of ${short(most)}`;
  if (value === undefined) return "speed unknown";
  return `${short(value)} of ${short(most)} tokens/s (${machine.tokensPerSecond?.basis})`;
}
