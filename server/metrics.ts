/** The server's metrics: nine from the density state, read at each scrape, and those of the server itself. */

import type { Density, DensitySite } from "../fitness/density/density.ts";
import { round } from "../fitness/scoring/units.ts";
import {
  type Labels,
  type MetricFamily,
  type MetricSample,
  sampleIfKnown,
} from "../src/http/metrics/family.ts";
import { type ProcessFacts, processFamilies } from "../src/http/metrics/process.ts";
import type { Tally } from "../src/http/metrics/tally.ts";
import type { Moment } from "../src/util/moment.ts";

export interface ServerFacts {
  readonly density: Density;
  readonly now: Moment;
  /** While false, scores and numbers of models are absent. */
  readonly areScored: boolean;
  readonly apiRequests: Tally;
  readonly process: ProcessFacts;
}

export const METRICS_PREFIX = "metalbridge_density";

/** Another prefix is for dashboards that query the same series under other names. */
export function serverMetrics(prefix = METRICS_PREFIX): readonly MetricFamily<ServerFacts>[] {
  return [
    ofNodes(
      `${prefix}_node_score`,
      "Highest score of any catalog model on the node.",
      ({ density, site, areScored }) => (areScored ? round(density.summaryOf(site).bestScore, 1) : undefined),
    ),
    ofNodes(
      `${prefix}_node_stale`,
      "1 while the node does not report, so its figures may be out of date.",
      ({ density, site, now }) => (density.isStale(site, now) ? 1 : 0),
    ),
    ofNodes(
      `${prefix}_node_ram_total_gb`,
      "Installed memory of the node, in GiB.",
      ({ site }) => site.place.system.total_ram_gb,
    ),
    ofNodes(
      `${prefix}_node_ram_available_gb`,
      "Memory available to programs on the node, in GiB.",
      ({ site }) => site.place.system.available_ram_gb,
    ),
    ofNodes(
      `${prefix}_node_gpu_vram_gb`,
      "Memory of one GPU of the node, in GiB; on a Mac, the memory that engines may claim; 0 without a GPU.",
      ({ site }) => site.place.system.gpu_vram_gb ?? 0,
    ),
    ofNodes(
      `${prefix}_node_gpu_count`,
      "Number of GPUs of the node.",
      ({ site }) => site.place.system.gpu_count,
    ),
    ofNodes(
      `${prefix}_node_model_count`,
      "Number of catalog models that fit the node.",
      ({ density, site, areScored }) => (areScored ? density.summaryOf(site).count : undefined),
    ),
    {
      name: `${prefix}_cluster_nodes_total`,
      type: "gauge",
      help: "Number of known hosts and nodes, including stale ones.",
      read: ({ density }) => [{ value: density.sites().length }],
    },
    {
      name: `${prefix}_cluster_nodes_stale`,
      type: "gauge",
      help: "Number of hosts and nodes that do not report.",
      read: ({ density, now }) => [
        { value: density.sites().filter((site) => density.isStale(site, now)).length },
      ],
    },
    {
      name: "metalbridge_server_api_requests_total",
      type: "counter",
      help: "Requests from the server to the API server, by verb and status code; code 0 if no response arrived.",
      labels: ["verb", "code"],
      read: ({ apiRequests }) => apiRequests.samples(),
    },
    ...processFamilies,
  ];
}

interface OneNode extends ServerFacts {
  readonly site: DensitySite;
}

/** One series per machine; a Host and a Node of one name are two series. No sample for undefined. */
function ofNodes(
  name: string,
  help: string,
  read: (one: OneNode) => number | undefined,
): MetricFamily<ServerFacts> {
  return {
    name,
    type: "gauge",
    help,
    labels: ["node", "kind"],
    *read(facts: ServerFacts): Iterable<MetricSample> {
      for (const site of facts.density.sites()) {
        const labels: Labels = { node: site.place.name, kind: site.place.kind };
        yield* sampleIfKnown(read({ ...facts, site }), labels);
      }
    },
  };
}
