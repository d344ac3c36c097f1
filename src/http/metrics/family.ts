/** Metrics as data: each family is described once, and its samples are read from facts on each scrape. */

export type Labels = Readonly<Record<string, string>>;

export interface MetricSample {
  readonly labels?: Labels;
  readonly value: number;
}

/** Counts of observations by upper bound, as plain numbers. */
export interface Histogram {
  /** In ascending order, without infinity. */
  readonly bounds: readonly number[];
  /** One count per bound, and a last one for values above all bounds. Not cumulative. */
  readonly counts: number[];
  sum: number;
}

export interface HistogramSample {
  readonly labels?: Labels;
  readonly histogram: Histogram;
}

interface Described {
  readonly name: string;
  /** One sentence that ends in a full stop. */
  readonly help: string;
  readonly labels?: readonly string[];
}

export type MetricFamily<Facts> = Described &
  (
    | { readonly type: "counter" | "gauge"; readonly read: (facts: Facts) => Iterable<MetricSample> }
    | { readonly type: "histogram"; readonly read: (facts: Facts) => Iterable<HistogramSample> }
  );

/** One series per state, with 1 for the current state, so that a former state does not keep the value 1. */
export function* stateSet(
  labels: Labels,
  name: string,
  states: readonly string[],
  current: string | undefined,
): Iterable<MetricSample> {
  for (const state of states)
    yield { labels: { ...labels, [name]: state }, value: state === current ? 1 : 0 };
}

/** No sample for an unknown value, because a missing series does not mean zero. */
export function* sampleIfKnown(value: number | undefined, labels: Labels = {}): Iterable<MetricSample> {
  if (value !== undefined) yield { labels, value };
}

/** A sample of 1 or 0. */
export function* flag(isSet: boolean, labels: Labels = {}): Iterable<MetricSample> {
  yield { labels, value: isSet ? 1 : 0 };
}
