/** Metrics of the agent. */
import { flag, type MetricFamily, sampleIfKnown } from "../../../src/http/metrics/family.ts";
import type { DrainOutcome } from "../../replicas/state/counts.ts";
import { HOST_LABELS, hostGauge, hostLabels, type Scrape } from "./scrape.ts";

const OUTCOMES: readonly DrainOutcome[] = ["quiet", "deadline", "ended"];

export const agentFamilies: readonly MetricFamily<Scrape>[] = [
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
