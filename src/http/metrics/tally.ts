/** Counters with labels, as plain numbers. */
import type { Labels, MetricSample } from "./family.ts";

export interface Tally {
  readonly add: (labels: Labels, by?: number) => void;
  readonly samples: () => Iterable<MetricSample>;
}

/** Label values must come from a short list, because each combination is stored permanently. */
export function createTally(): Tally {
  const entries = new Map<string, { readonly labels: Labels; value: number }>();
  return {
    add: (labels, by = 1) => {
      const key = Object.values(labels).join("\0");
      const entry = entries.get(key);
      if (entry === undefined) entries.set(key, { labels, value: by });
      else entry.value += by;
    },
    samples: () => entries.values(),
  };
}
