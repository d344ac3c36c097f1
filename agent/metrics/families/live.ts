/** Speed and load times of the models on this host. */
import type { MetricFamily, MetricSample } from "../../../src/http/metrics/family.ts";
import { MODEL_LOAD_SECONDS, sumSamples, TOKENS_PER_SECOND } from "../../../src/http/metrics/live.ts";
import type { Scrape } from "./scrape.ts";

function* speeds({ replicas, hostName: node }: Scrape): Iterable<Required<MetricSample>> {
  for (const { model, runtime: backend, performance } of replicas)
    if (model !== "" && performance?.tokensPerSecond !== undefined)
      yield { labels: { model, backend, node }, value: performance.tokensPerSecond };
}

export const liveFamilies: readonly MetricFamily<Scrape>[] = [
  { ...TOKENS_PER_SECOND, read: (scrape) => sumSamples(speeds(scrape)) },
  {
    ...MODEL_LOAD_SECONDS,
    read: function* ({ counts, hostName: node }) {
      for (const { model, backend, seconds } of counts.loads.values())
        yield { labels: { model, backend, node }, histogram: seconds };
    },
  },
];
