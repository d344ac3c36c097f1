/** Hands families to prom-client, which is loaded by whoever exposes them. */
import type { Metric, Registry } from "prom-client";
import type { Family, HistogramSample } from "./family.ts";

interface Exposed {
  readonly labels: Record<string, string>;
  readonly value: number;
  readonly metricName?: string;
}

/** For one scrape: a registry of its own each time keeps no series in memory until the next. */
export function registerFamilies<Facts>(
  registry: Registry,
  families: readonly Family<Facts>[],
  facts: Facts,
): void {
  for (const family of families) {
    const { name, help, type } = family;
    const get = async () => ({ name, help, type, aggregator: "sum", values: [...valuesOf(family, facts)] });
    // A registry takes whatever has a name and a get(); its types name only the library's own classes, which would keep
    // a second copy of every series.
    registry.registerMetric({ name, help, type, get } as unknown as Metric);
  }
}

function* valuesOf<Facts>(family: Family<Facts>, facts: Facts): Iterable<Exposed> {
  if (family.type === "histogram") {
    for (const sample of family.read(facts)) yield* histogramValues(family.name, sample);
  } else for (const { labels, value } of family.read(facts)) yield { labels: { ...labels }, value };
}

function* histogramValues(name: string, { labels = {}, histogram }: HistogramSample): Iterable<Exposed> {
  const { bounds, counts, sum } = histogram;
  let count = 0;
  for (const [index, inBucket] of counts.entries()) {
    count += inBucket;
    const le = bounds[index] === undefined ? "+Inf" : String(bounds[index]);
    yield { metricName: `${name}_bucket`, labels: { ...labels, le }, value: count };
  }
  yield { metricName: `${name}_sum`, labels: { ...labels }, value: sum };
  yield { metricName: `${name}_count`, labels: { ...labels }, value: count };
}
