/** Counting observations into a histogram. */
import type { Histogram } from "./family.ts";

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
