/** What engines tell of their work, asked of them during the scrape, under one naming for all of them. */
import type { EngineGauges } from "../../../src/engines/engine-gauges.ts";
import type { Family, Labels } from "../../../src/metrics/family.ts";
import type { EngineReading } from "../../replicas/metrics/counts.ts";
import { namedReplicas, REPLICA_LABELS, type Scrape } from "./scrape.ts";

function* readings(scrape: Scrape): Iterable<readonly [EngineReading["gauges"], Labels]> {
  const byUid = new Map(scrape.engines.map(({ uid, gauges }) => [uid, gauges]));
  for (const [{ uid }, labels] of namedReplicas(scrape)) {
    const gauges = byUid.get(uid);
    if (gauges !== undefined) yield [gauges, labels];
  }
}

function family(
  key: keyof EngineGauges,
  { name, type, help }: { readonly name: string; readonly type: "counter" | "gauge"; readonly help: string },
): Family<Scrape> {
  const read = function* (scrape: Scrape) {
    for (const [gauges, labels] of readings(scrape)) {
      const value = gauges === "unknown" ? undefined : gauges[key];
      if (value !== undefined) yield { labels, value };
    }
  };
  return { name: `metalbridge_engine_${name}`, type, help, labels: REPLICA_LABELS, read };
}

export const engineFamilies: readonly Family<Scrape>[] = [
  {
    name: "metalbridge_engine_up",
    type: "gauge",
    help: "1 where a serving engine told its gauges during this scrape, 0 where it did not in time.",
    labels: REPLICA_LABELS,
    read: function* (scrape) {
      for (const [gauges, labels] of readings(scrape)) yield { labels, value: gauges === "unknown" ? 0 : 1 };
    },
  },
  family("running", { name: "requests_running", type: "gauge", help: "Requests that the engine works on." }),
  family("waiting", {
    name: "requests_waiting",
    type: "gauge",
    help: "Requests that wait in the engine for their turn.",
  }),
  family("promptTokens", {
    name: "prompt_tokens_total",
    type: "counter",
    help: "Prompt tokens computed since the engine's start, without those taken from its cache.",
  }),
  family("cachedPromptTokens", {
    name: "prompt_tokens_cached_total",
    type: "counter",
    help: "Prompt tokens taken from the engine's cache.",
  }),
  family("generatedTokens", {
    name: "generated_tokens_total",
    type: "counter",
    help: "Tokens generated since the engine's start.",
  }),
  family("promptSeconds", {
    name: "prompt_seconds_total",
    type: "counter",
    help: "Time that the engine spent on computing prompts.",
  }),
  family("generationSeconds", {
    name: "generation_seconds_total",
    type: "counter",
    help: "Time that the engine spent on generating tokens.",
  }),
  family("draftTokens", {
    name: "draft_tokens_total",
    type: "counter",
    help: "Tokens proposed by the draft model of speculative decoding.",
  }),
  family("acceptedDraftTokens", {
    name: "draft_tokens_accepted_total",
    type: "counter",
    help: "Proposed tokens that the model accepted.",
  }),
  family("kvUseRatio", {
    name: "kv_cache_usage_ratio",
    type: "gauge",
    help: "Share of the KV cache in use, 0 to 1; only of engines that tell it.",
  }),
];
