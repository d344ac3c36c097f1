/** The engines' own metrics, read during the scrape, under common names for all engines. */
import type { EngineGauges } from "../../../src/engines/contract/engine-gauges.ts";
import type { MetricFamily } from "../../../src/http/metrics/family.ts";
import { labeledReadings, REPLICA_LABELS, type Scrape } from "./scrape.ts";

function readings(scrape: Scrape) {
  return labeledReadings(scrape, new Map(scrape.engines.map(({ uid, gauges }) => [uid, gauges])));
}

function family(
  key: keyof EngineGauges,
  { name, type, help }: { readonly name: string; readonly type: "counter" | "gauge"; readonly help: string },
): MetricFamily<Scrape> {
  const read = function* (scrape: Scrape) {
    for (const [gauges, labels] of readings(scrape)) {
      const value = gauges === "unknown" ? undefined : gauges[key];
      if (value !== undefined) yield { labels, value };
    }
  };
  return { name: `metalbridge_engine_${name}`, type, help, labels: REPLICA_LABELS, read };
}

export const engineFamilies: readonly MetricFamily<Scrape>[] = [
  {
    name: "metalbridge_engine_up",
    type: "gauge",
    help: "1 if the serving engine reported its metrics during this scrape, 0 on timeout.",
    labels: REPLICA_LABELS,
    read: function* (scrape) {
      for (const [gauges, labels] of readings(scrape)) yield { labels, value: gauges === "unknown" ? 0 : 1 };
    },
  },
  family("running", { name: "requests_running", type: "gauge", help: "Requests in flight in the engine." }),
  family("waiting", {
    name: "requests_waiting",
    type: "gauge",
    help: "Requests queued in the engine.",
  }),
  family("promptTokens", {
    name: "prompt_tokens_total",
    type: "counter",
    help: "Prompt tokens computed since the engine's start, without those read from its cache.",
  }),
  family("cachedPromptTokens", {
    name: "prompt_tokens_cached_total",
    type: "counter",
    help: "Prompt tokens read from the engine's cache.",
  }),
  family("generatedTokens", {
    name: "generated_tokens_total",
    type: "counter",
    help: "Tokens generated since the engine's start.",
  }),
  family("promptSeconds", {
    name: "prompt_seconds_total",
    type: "counter",
    help: "Time that the engine spent computing prompts.",
  }),
  family("generationSeconds", {
    name: "generation_seconds_total",
    type: "counter",
    help: "Time that the engine spent generating tokens.",
  }),
  family("draftTokens", {
    name: "draft_tokens_total",
    type: "counter",
    help: "Tokens drafted by the draft model of speculative decoding.",
  }),
  family("acceptedDraftTokens", {
    name: "draft_tokens_accepted_total",
    type: "counter",
    help: "Draft tokens that the model accepted.",
  }),
  family("kvUseRatio", {
    name: "kv_cache_usage_ratio",
    type: "gauge",
    help: "Fraction of the KV cache in use, 0 to 1; only for engines that report it.",
  }),
];
