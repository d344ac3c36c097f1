/** Counting observations into a histogram. */
import type { Histogram, HistogramSample, Labels } from "./family.ts";

export function createHistogram(bounds: readonly number[]): Histogram {
  return { bounds, counts: new Array<number>(bounds.length + 1).fill(0), sum: 0 };
}

export function observeValue(histogram: Histogram, value: number): void {
  const { bounds, counts } = histogram;
  let at = 0;
  while (at < bounds.length && value > (bounds[at] ?? Number.POSITIVE_INFINITY)) at += 1;
  counts[at] = (counts[at] ?? 0) + 1;
  histogram.sum += value;
}

export interface LabeledHistograms {
  readonly observe: (labels: Labels, value: number) => void;
  readonly samples: () => Iterable<Required<HistogramSample>>;
}

/** Label values must come from a short list, because each combination is stored permanently. */
export function createHistograms(bounds: readonly number[]): LabeledHistograms {
  const entries = new Map<string, Required<HistogramSample>>();
  return {
    observe: (labels, value) => {
      const key = Object.values(labels).join("\0");
      const entry = entries.get(key) ?? { labels, histogram: createHistogram(bounds) };
      entries.set(key, entry);
      observeValue(entry.histogram, value);
    },
    samples: () => entries.values(),
  };
}
