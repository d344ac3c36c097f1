/** The weights of the score as a setting, which the controller and the scheduler extender share. */
import { z } from "zod";
import { DEFAULT_SCORE_WEIGHTS } from "./score.ts";

const weight = z.coerce.number("must be a number from 0 to 1").min(0).max(1);
const pairs = z.string().regex(/^[a-z]+=[0-9.]+$/, "must be a term and its weight, such as tps=0.7");
const DEFAULTS = Object.entries(DEFAULT_SCORE_WEIGHTS)
  .map(([term, value]) => `${term}=${value}`)
  .join(",");

/** For example `tps=0.7,utilization=0.2,cost=0.1`. A term that is not named keeps its default. */
export const scoreWeightsSchema = z
  .string()
  .default(DEFAULTS)
  .transform((text) => text.split(",").map((pair) => pair.trim()))
  .pipe(z.array(pairs).max(3))
  .transform((list) => ({
    ...DEFAULT_SCORE_WEIGHTS,
    ...Object.fromEntries(list.map((pair) => pair.split("="))),
  }))
  .pipe(z.strictObject({ tps: weight, utilization: weight, cost: weight }))
  .refine(({ tps, utilization, cost }) => tps + utilization + cost > 0, "one weight must be greater than 0")
  .describe(
    "Weights of the terms in the score of machines, each from 0 to 1, separated by commas: speed, utilization, cost.",
  );
