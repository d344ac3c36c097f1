/** The weights of the score as a setting, which the controller and the scheduler extender share. */
import { z } from "zod";
import { DEFAULT_SCORE_WEIGHTS } from "./score.ts";

const weight = z.coerce.number("must be a number from 0 to 1").min(0).max(1);
const pair = z
  .string()
  .regex(
    /^(tps|utilization|cost)=[0-9.]+$/,
    "must be tps, utilization or cost and a weight, such as tps=0.7",
  );
const DEFAULTS = Object.entries(DEFAULT_SCORE_WEIGHTS)
  .map(([term, value]) => `${term}=${value}`)
  .join(",");

/** For example `tps=0.7,utilization=0.2,cost=0.1`. A term that is not named keeps its default. */
export const scoreWeightsSchema = z
  .string()
  .default(DEFAULTS)
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
