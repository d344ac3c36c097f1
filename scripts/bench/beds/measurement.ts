/** What a scenario measures, and the figures drawn from it. */

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
export type Limits = Partial<Readonly<Record<Statistic, number>>>;

export interface Measurement {
  readonly name: string;
  readonly unit: Unit;
  readonly samples: readonly number[];
  /** Its targets. */
  readonly limits: Limits;
}

export function measured(
  name: string,
  unit: Unit,
  samples: readonly number[],
  limits: Limits = {},
): Measurement {
  return { name, unit, samples, limits };
}

export type Figures = Readonly<Record<Statistic | "n", number>>;

export function figuresOf(samples: readonly number[]): Figures {
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
