/** Metrics as data: each family is described once and read from facts on each scrape. */

export type Labels = Readonly<Record<string, string>>;

export interface MetricSample {
  readonly labels?: Labels;
  readonly value: number;
}

/** Counts of observations by upper bound; plain numbers, so that nothing has to be loaded to keep them. */
export interface Histogram {
  /** Ascending, without infinity. */
  readonly bounds: readonly number[];
  /** One more than the bounds: the last counts what is above all of them. Not cumulative. */
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

/** One series for each of the states, 1 for the one that holds: a state that ends does not leave its series behind. */
export function* stateSet(
  labels: Labels,
  name: string,
  states: readonly string[],
  current: string | undefined,
): Iterable<MetricSample> {
  for (const state of states)
    yield { labels: { ...labels, [name]: state }, value: state === current ? 1 : 0 };
}

/** Nothing where the value is not known: a series that stays away is not zero. */
export function* sampleIfKnown(value: number | undefined, labels: Labels = {}): Iterable<MetricSample> {
  if (value !== undefined) yield { labels, value };
}

/** 1 or 0. */
export function* flag(isSo: boolean, labels: Labels = {}): Iterable<MetricSample> {
  yield { labels, value: isSo ? 1 : 0 };
}
