/** Measurements of a scenario, and their summary. */

export type Unit =
  | "ms"
  | "%"
  | "MB"
  | "KB"
  | "ratio"
  | "1/min"
  | "requests"
  | "requests/s"
  | "slices"
  | "services"
  | "restarts";
export type Statistic = "p50" | "p99" | "max";
export type TargetLimits = Partial<Readonly<Record<Statistic, number>>>;

export interface ScenarioResult {
  readonly name: string;
  readonly unit: Unit;
  readonly samples: readonly number[];
  /** Its targets. */
  readonly limits: TargetLimits;
}

export function measured(
  name: string,
  unit: Unit,
  samples: readonly number[],
  limits: TargetLimits = {},
): ScenarioResult {
  return { name, unit, samples, limits };
}

export type SampleSummary = Readonly<Record<Statistic | "n", number>>;

export function summaryOf(samples: readonly number[]): SampleSummary {
  const sorted = samples.toSorted((a, b) => a - b);
  return {
    n: sorted.length,
    p50: percentile(sorted, 0.5),
    p99: percentile(sorted, 0.99),
    max: sorted.at(-1) ?? Number.NaN,
  };
}

/** Nearest rank: with few samples p99 is the largest, never an invented value. */
function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}
