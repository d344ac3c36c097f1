/** What a scenario measures, and the figures drawn from it. */

export type Unit = "ms" | "%" | "MB" | "ratio" | "1/min" | "requests" | "slices" | "restarts";
export type Statistic = "p50" | "p99" | "max";

export interface BenchTarget {
  readonly statistic: Statistic;
  readonly limit: number;
}

export interface Measurement {
  readonly name: string;
  readonly unit: Unit;
  readonly samples: readonly number[];
  readonly targets: readonly BenchTarget[];
}

export interface Figures {
  readonly n: number;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

export function figuresOf(samples: readonly number[]): Figures {
  const sorted = [...samples].sort((a, b) => a - b);
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
