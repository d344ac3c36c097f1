/** Every metric of the agent, in output order. */

import type { EngineGauges } from "../../src/engines/contract/engine-gauges.ts";
import {
  flag,
  type MetricFamily,
  type MetricSample,
  sampleIfKnown,
  stateSet,
} from "../../src/http/metrics/family.ts";
import { MODEL_LOAD_SECONDS, sumSamples, TOKENS_PER_SECOND } from "../../src/http/metrics/live.ts";
import { processFamilies } from "../../src/http/metrics/process.ts";
import type { DrainOutcome } from "../replicas/state/counts.ts";
import { gateFamilies } from "./families/gate.ts";
import { replicaFamilies } from "./families/replica.ts";
import {
  HOST_LABELS,
  hostGauge,
  hostLabels,
  labeledReadings,
  REPLICA_LABELS,
  type Scrape,
} from "./families/scrape.ts";

function* speeds({ replicas, hostName: node }: Scrape): Iterable<Required<MetricSample>> {
  for (const { model, runtime: backend, performance } of replicas)
    if (model !== "" && performance?.tokensPerSecond !== undefined)
      yield { labels: { model, backend, node }, value: performance.tokensPerSecond };
}

/** Speed and load times of the models on this host. */
const liveFamilies: readonly MetricFamily<Scrape>[] = [
  { ...TOKENS_PER_SECOND, read: (scrape) => sumSamples(speeds(scrape)) },
  {
    ...MODEL_LOAD_SECONDS,
    read: function* ({ counts, hostName: node }) {
      for (const { labels, histogram } of counts.loads.samples())
        yield { labels: { ...labels, node }, histogram };
    },
  },
];

const PRESSURE_LEVELS = ["Normal", "Warning", "Critical", "Unknown"] as const;

/** Metrics of the machine that the agent runs on. Readings that failed are absent, never zero. */
const agentHostFamilies: readonly MetricFamily<Scrape>[] = [
  hostGauge(
    "metalbridge_host_memory_claimed_bytes",
    "Total memory claimed by all replicas of this host.",
    (scrape) => scrape.claimedBytes,
  ),
  hostGauge(
    "metalbridge_host_memory_budget_bytes",
    "Memory budget of this host for all replicas: its GPU budget less systemReserve.",
    (scrape) => scrape.budgetBytes,
  ),
  hostGauge("metalbridge_host_memory_size_bytes", "Installed memory.", (scrape) => scrape.memory?.totalBytes),
  hostGauge(
    "metalbridge_host_memory_available_bytes",
    "Available memory.",
    (scrape) => scrape.memory?.availableBytes,
  ),
  hostGauge(
    "metalbridge_host_swap_used_bytes",
    "Swap space in use.",
    (scrape) => scrape.memory?.swapUsedBytes,
  ),
  {
    name: "metalbridge_host_memory_pressure",
    type: "gauge",
    help: "1 for the current memory pressure level, 0 for the others.",
    labels: [...HOST_LABELS, "level"],
    read: (scrape) => stateSet(hostLabels(scrape), "level", PRESSURE_LEVELS, scrape.memory?.pressure),
  },
  hostGauge(
    "metalbridge_host_disk_size_bytes",
    "Size of the volume that holds the model store.",
    (scrape) => scrape.disk?.totalBytes,
  ),
  hostGauge(
    "metalbridge_host_disk_free_bytes",
    "Free space on the volume that holds the model store.",
    (scrape) => scrape.disk?.freeBytes,
  ),
  hostGauge(
    "metalbridge_host_disk_reserve_bytes",
    "Free disk space that downloads must leave.",
    (scrape) => scrape.diskReserveBytes,
  ),
  hostGauge(
    "metalbridge_host_models_bytes",
    "Disk space used by stored models.",
    (scrape) => scrape.disk?.storeBytes,
  ),
];

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

/** The engines' own metrics, read during the scrape, under common names for all engines. */
const engineFamilies: readonly MetricFamily<Scrape>[] = [
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

const OUTCOMES: readonly DrainOutcome[] = ["quiet", "deadline", "ended"];

/** Metrics of the agent. */
const agentFamilies: readonly MetricFamily<Scrape>[] = [
  {
    name: "metalbridge_agent_info",
    type: "gauge",
    help: "Version of the agent. The value is always 1.",
    labels: [...HOST_LABELS, "version"],
    read: (scrape) => flag(true, { ...hostLabels(scrape), version: scrape.version }),
  },
  hostGauge(
    "metalbridge_agent_lease_held",
    "1 while this agent holds the Lease of its host name.",
    ({ isNameOurs }) => Number(isNameOurs),
  ),
  hostGauge(
    "metalbridge_agent_replicas_synced",
    "1 while the local cache of this host's replicas is complete.",
    ({ isSynced }) => Number(isSynced),
  ),
  hostGauge(
    "metalbridge_agent_watch_age_seconds",
    "Time since the last event or bookmark of the replica watch; bookmarks arrive every one to two minutes.",
    ({ watchAgeMs }) => (watchAgeMs === undefined ? undefined : watchAgeMs / 1_000),
  ),
  {
    name: "metalbridge_agent_api_requests_total",
    type: "counter",
    help: "Requests to the API server by verb (WATCH for a watch) and status code; code 0 if no response arrived.",
    labels: [...HOST_LABELS, "verb", "code"],
    read: function* (scrape) {
      for (const { labels, value } of scrape.apiRequests.samples())
        yield { labels: { ...hostLabels(scrape), ...labels }, value };
    },
  },
  {
    name: "metalbridge_agent_drain_duration_seconds",
    type: "histogram",
    help: "Duration of requested stops, until all processes of the engine have exited; outcome quiet: all requests were finished, deadline: drainSeconds elapsed, ended: the engine exited during the drain.",
    labels: [...HOST_LABELS, "outcome"],
    read: function* (scrape) {
      for (const outcome of OUTCOMES)
        yield { labels: { ...hostLabels(scrape), outcome }, histogram: scrape.counts.drains[outcome] };
    },
  },
  {
    name: "metalbridge_agent_download_bytes_total",
    type: "counter",
    help: "Bytes of models downloaded from their sources.",
    labels: HOST_LABELS,
    read: (scrape) => sampleIfKnown(scrape.downloadedBytes, hostLabels(scrape)),
  },
  {
    name: "metalbridge_agent_fetch_failures_total",
    type: "counter",
    help: "Failed downloads of a replica's weights, by reason code.",
    labels: [...HOST_LABELS, "reason"],
    read: function* (scrape) {
      for (const { labels, value } of scrape.counts.fetchFailures.samples())
        yield { labels: { ...hostLabels(scrape), ...labels }, value };
    },
  },
];

export const agentMetrics: readonly MetricFamily<Scrape>[] = [
  ...agentFamilies,
  ...agentHostFamilies,
  ...replicaFamilies,
  ...engineFamilies,
  ...liveFamilies,
  ...gateFamilies,
  ...processFamilies,
];
