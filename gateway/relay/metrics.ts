/** The relay's metrics: services, endpoints, certificates, and the requests that Envoy counts. */
import { flag, type MetricFamily, type MetricSample } from "../../src/http/metrics/family.ts";
import { type ProcessFacts, processFamilies } from "../../src/http/metrics/process.ts";
import type { EnvoyAdmin } from "../envoy/run/admin.ts";
import type { EnvoyCluster } from "../envoy/types.ts";
import { modelLabelsOf } from "../metrics.ts";

/** Responses by class of their status, and those in flight. */
const STATS = String.raw`^cluster\.[^.]+\.upstream_rq_([1-5]xx|active)$`;
const LINE = /^cluster\.([^.]+)\.upstream_rq_([1-5]xx|active): (\d+)$/gm;

interface RequestCount {
  readonly service: string;
  /** A class of statuses such as `2xx`, or `active`. */
  readonly what: string;
  readonly value: number;
}

/** None while Envoy does not answer. */
export async function readRequests(admin: EnvoyAdmin | undefined): Promise<readonly RequestCount[]> {
  const stats = (await admin?.get(`/stats?usedonly&filter=${encodeURIComponent(STATS)}`)) ?? "";
  const counts = Array.from(stats.matchAll(LINE), ([, service = "", what = "", value]) => ({
    service,
    what,
    value: Number(value),
  }));
  // Other clusters have no namespace.
  return counts.filter(({ service }) => service.includes("/"));
}

export interface RelayFacts {
  readonly requests: readonly RequestCount[];
  /** Slices that are not served. */
  readonly problems: ReadonlyMap<string, string>;
  readonly clusters: readonly EnvoyCluster[];
  readonly isReady: boolean;
  readonly process: ProcessFacts;
}

const SERVICE = ["namespace", "service"];

export const relayFamilies: readonly MetricFamily<RelayFacts>[] = [
  {
    name: "metalbridge_relay_requests_total",
    type: "counter",
    help: "Responses of replicas, by service and class of the status.",
    labels: [...SERVICE, "code_class"],
    read: function* ({ requests }) {
      for (const { service, what, value } of requests)
        if (what !== "active") yield { labels: { ...modelLabelsOf(service), code_class: what }, value };
    },
  },
  {
    name: "metalbridge_relay_requests_in_flight",
    type: "gauge",
    help: "Requests that replicas are processing for this relay.",
    labels: SERVICE,
    read: function* ({ requests }) {
      for (const { service, what, value } of requests)
        if (what === "active") yield { labels: modelLabelsOf(service), value };
    },
  },
  {
    name: "metalbridge_relay_endpoints",
    type: "gauge",
    help: "Sealed replicas that are ready.",
    labels: SERVICE,
    read: ({ clusters }) => perService(clusters, ({ endpoints }) => endpoints.length),
  },
  {
    name: "metalbridge_relay_fingerprints",
    type: "gauge",
    help: "Certificates of hosts that the relay accepts for the service.",
    labels: SERVICE,
    read: ({ clusters }) => perService(clusters, ({ fingerprints = [] }) => fingerprints.length),
  },
  {
    name: "metalbridge_relay_services",
    type: "gauge",
    help: "Services that the relay serves.",
    read: ({ clusters }) => [{ value: clusters.length }],
  },
  {
    name: "metalbridge_relay_rejected_slices",
    type: "gauge",
    help: "Slices that the relay does not serve, because an older one has their port or the port is out of range.",
    read: ({ problems }) => [{ value: problems.size }],
  },
  {
    name: "metalbridge_relay_ready",
    type: "gauge",
    help: "1 if the relay accepts requests.",
    read: ({ isReady }) => flag(isReady),
  },
  ...processFamilies,
];

function* perService(
  clusters: readonly EnvoyCluster[],
  read: (cluster: EnvoyCluster) => number,
): Iterable<MetricSample> {
  for (const cluster of clusters) yield { labels: modelLabelsOf(cluster.name), value: read(cluster) };
}
