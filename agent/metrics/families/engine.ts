/** The engines' own metrics, read during the scrape, under common names for all engines. */
import type { EngineGauges } from "../../../src/engines/contract/engine-gauges.ts";
import type { MetricFamily } from "../../../src/http/metrics/family.ts";
import { labeledReadings, REPLICA_LABELS, type Scrape } from "./scrape.ts";

function readings(scrape: Scrape) {
  return labeledReadings(scrape, new Map(scrape.engines.map(({ uid, gauges }) => [uid, gauges])));
}

/** A counter if the name says `_total`, otherwise a gauge. */
function family(key: keyof EngineGauges, name: string, help: string): MetricFamily<Scrape> {
  const type = name.endsWith("_total") ? "counter" : "gauge";
  const read = function* (scrape: Scrape) {
    for (const [gauges, labels] of readings(scrape)) {
      const value = gauges === "unknown" ? undefined : gauges[key];
      if (value !== undefined) yield { labels, value };
    }
  };
  return { name, type, help, labels: REPLICA_LABELS, read };
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
  family("running", "metalbridge_engine_requests_running", "Requests in flight in the engine."),
  family("waiting", "metalbridge_engine_requests_waiting", "Requests queued in the engine."),
  family(
    "promptTokens",
    "metalbridge_engine_prompt_tokens_total",
    "Prompt tokens computed since the engine's start, excluding tokens read from its cache.",
  ),
  family(
    "cachedPromptTokens",
    "metalbridge_engine_prompt_tokens_cached_total",
    "Prompt tokens read from the engine's cache.",
  ),
  family(
    "generatedTokens",
    "metalbridge_engine_generated_tokens_total",
    "Tokens generated since the engine's start.",
  ),
  family(
    "promptSeconds",
    "metalbridge_engine_prompt_seconds_total",
    "Time that the engine spent computing prompts.",
  ),
  family(
    "generationSeconds",
    "metalbridge_engine_generation_seconds_total",
    "Time that the engine spent generating tokens.",
  ),
  family(
    "draftTokens",
    "metalbridge_engine_draft_tokens_total",
    "Tokens drafted by the draft model of speculative decoding.",
  ),
  family(
    "acceptedDraftTokens",
    "metalbridge_engine_draft_tokens_accepted_total",
    "Draft tokens that the model accepted.",
  ),
  family(
    "kvUseRatio",
    "metalbridge_engine_kv_cache_usage_ratio",
    "Fraction of the KV cache in use, 0 to 1; only for engines that report it.",
  ),
];
