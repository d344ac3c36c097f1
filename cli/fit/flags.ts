/** Converts the flags of `metalbridge fit` to fields of an InferenceService. */
import { InvalidArgumentError } from "commander";
import { type ScoreWeights, scoreWeightsSchema } from "../../src/capacity/score.ts";
import { defined } from "../../src/util/defined.ts";
import { sizingOf } from "./sizing.ts";

export interface FitFlags {
  readonly filename?: string;
  readonly context?: number;
  readonly cacheType?: string;
  readonly cacheTypeK?: string;
  readonly cacheTypeV?: string;
  readonly priority?: string;
  readonly selector?: Readonly<Record<string, string>>;
  /** Selects one of several quantizations of a source. */
  readonly quantization?: string | undefined;
  readonly catalog?: readonly string[];
  /** Show the score of each machine, and its figures. */
  readonly explain?: boolean;
  readonly scoreWeights?: ScoreWeights;
}

/** Only the given fields. The schema adds the defaults. */
export function specOf(flags: FitFlags): Record<string, unknown> {
  const { cacheType, priority, selector } = flags;
  return defined({
    ...sizingOf({
      ...flags,
      cacheTypeK: flags.cacheTypeK ?? cacheType,
      cacheTypeV: flags.cacheTypeV ?? cacheType,
    }),
    priority,
    placement: selector === undefined ? undefined : { hostSelector: { matchLabels: selector } },
  });
}

/** "tps=0.7,utilization=0.2,cost=0.1" */
export function parseScoreWeights(text: string): ScoreWeights {
  const read = scoreWeightsSchema.safeParse(text);
  if (!read.success) throw new InvalidArgumentError(`${read.error.issues[0]?.message ?? "It is invalid"}.`);
  return read.data;
}

/** "pool=studio,zone=a" */
export function parseLabels(text: string): Record<string, string> {
  const pairs = text.split(",").map((part) => part.split("="));
  if (pairs.some(([key, value, ...more]) => key === "" || value === undefined || more.length > 0))
    throw new InvalidArgumentError("It has to be labels such as pool=studio,zone=a.");
  return Object.fromEntries(pairs);
}
