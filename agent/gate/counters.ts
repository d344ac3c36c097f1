/** What a gate counts per service: fixed buckets and plain numbers, so that a token costs nothing worth measuring. */

/** Upper bounds in seconds; one more bucket holds what is above. */
export const FIRST_BYTE_BOUNDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120];
export const GAP_BOUNDS = [0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5, 30];

/** Counts per bucket, not cumulated; the last one is unbounded. `sum` in seconds. */
export interface Histogram {
  readonly counts: number[];
  sum: number;
}

export interface ServiceCounters {
  /** Finished requests by HTTP status; 499 is a client that left, 599 a response that broke off. */
  readonly requests: Record<string, number>;
  /** Requests that were not passed on, by reason. */
  readonly refused: Record<string, number>;
  /** From a complete request to the first byte of the daemon's answer. */
  readonly firstByte: Histogram;
  /** Between two reads of an answer: between tokens, where it is streamed. */
  readonly gaps: Histogram;
}

export function createCounters(): ServiceCounters {
  return {
    requests: {},
    refused: {},
    firstByte: { counts: FIRST_BYTE_BOUNDS.map(() => 0).concat(0), sum: 0 },
    gaps: { counts: GAP_BOUNDS.map(() => 0).concat(0), sum: 0 },
  };
}

export function count(counts: Record<string, number>, label: string | number): void {
  counts[label] = (counts[label] ?? 0) + 1;
}

export function observe(histogram: Histogram, bounds: readonly number[], seconds: number): void {
  const above = bounds.findIndex((bound) => seconds <= bound);
  const bucket = above < 0 ? bounds.length : above;
  histogram.counts[bucket] = (histogram.counts[bucket] ?? 0) + 1;
  histogram.sum += seconds;
}

/** Adds what another gate has counted, such as the one before an upgrade. */
export function addCounters(to: ServiceCounters, from: ServiceCounters): void {
  for (const kind of ["requests", "refused"] as const)
    for (const [label, value] of Object.entries(from[kind])) to[kind][label] = (to[kind][label] ?? 0) + value;
  for (const kind of ["firstByte", "gaps"] as const) {
    for (const [bucket, value] of from[kind].counts.entries())
      to[kind].counts[bucket] = (to[kind].counts[bucket] ?? 0) + value;
    to[kind].sum += from[kind].sum;
  }
}
