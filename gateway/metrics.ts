/** The gateway's metrics: requests, queues, keys, usage, and those of the process. */

import { FIRST_BYTE_METRIC, LATENCY_BUCKETS, REQUESTS_METRIC } from "../src/gateway/indicators.ts";
import type { UsageRow } from "../src/gateway/usage.ts";
import {
  flag,
  type Histogram,
  type Labels,
  type MetricFamily,
  sampleIfKnown,
} from "../src/http/metrics/family.ts";
import { createHistogram, observeValue } from "../src/http/metrics/histogram.ts";
import { type ProcessFacts, processFamilies } from "../src/http/metrics/process.ts";
import { createTally, type Tally } from "../src/http/metrics/tally.ts";
import type { Models } from "./models/models.ts";
import type { ModelQueues } from "./queue/queues.ts";

const MODEL = ["namespace", "service"];
const USAGE = ["key", "namespace", "service", "host"];

/** One histogram per model. */
type ByModel = Map<string, { readonly labels: Labels; readonly histogram: Histogram }>;

export interface RequestMetrics {
  /** Requests by namespace, service and status code. */
  readonly requests: Tally;
  /** Requests that the gateway refused, by code. */
  readonly refusals: Tally;
  readonly secondTries: Tally;
  readonly duration: ByModel;
  readonly firstByte: ByModel;
  readonly wait: ByModel;
}

export function createRequestMetrics(): RequestMetrics {
  return {
    requests: createTally(),
    refusals: createTally(),
    secondTries: createTally(),
    duration: new Map(),
    firstByte: new Map(),
    wait: new Map(),
  };
}

export function observeByModel(histograms: ByModel, model: string, seconds: number): void {
  let entry = histograms.get(model);
  if (entry === undefined) {
    entry = { labels: modelLabelsOf(model), histogram: createHistogram(LATENCY_BUCKETS) };
    histograms.set(model, entry);
  }
  observeValue(entry.histogram, seconds);
}

/** Labels of a model, from `namespace/name`. */
export function modelLabelsOf(model: string): Labels {
  const [namespace = "", service = ""] = model.split("/");
  return { namespace, service };
}

export interface UsageFacts {
  /** Rows since the start; their number is bounded. */
  readonly usage: readonly UsageRow[];
  readonly usageWriteFailures: number;
  /** Undefined if no shared counters are configured. */
  readonly areCountersShared: boolean | undefined;
}

export interface GatewayFacts extends UsageFacts {
  readonly keys: { readonly valid: number; readonly invalid: number };
  readonly metrics: RequestMetrics;
  readonly queues: ModelQueues;
  readonly models: Models;
  readonly isEnvoyRunning: boolean;
  readonly apiRequests: Tally;
  readonly process: ProcessFacts;
}

export const gatewayFamilies: readonly MetricFamily<GatewayFacts>[] = [
  {
    name: REQUESTS_METRIC,
    type: "counter",
    help: "Requests by service and status code, including those refused because the service had no replica or no room (503, 429), unless its owner has stopped it; code 0 is a client that left before the response.",
    labels: [...MODEL, "code"],
    read: ({ metrics }) => metrics.requests.samples(),
  },
  {
    name: "metalbridge_gateway_second_tries_total",
    type: "counter",
    help: "Requests that were tried a second time, because their replica failed before the first byte.",
    labels: MODEL,
    read: ({ metrics }) => metrics.secondTries.samples(),
  },
  {
    name: "metalbridge_gateway_refused_requests_total",
    type: "counter",
    help: "Requests that the gateway refused, by error code.",
    labels: ["code"],
    read: ({ metrics }) => metrics.refusals.samples(),
  },
  histogram(
    "metalbridge_gateway_request_duration_seconds",
    "Time from the arrival of a request to its end.",
    "duration",
  ),
  histogram(
    FIRST_BYTE_METRIC,
    "Time from the arrival to the first byte of the response; not of failures of the service (5xx, 429), and without the wait for a service that spec.idle had unloaded.",
    "firstByte",
  ),
  histogram("metalbridge_gateway_queue_wait_seconds", "Time that requests waited for a replica.", "wait"),
  queueGauge("queued_requests", "Requests that wait for a replica.", (queue) => queue.waiting),
  queueGauge(
    "requests_in_flight",
    "Requests of this gateway that replicas are processing.",
    (queue) => queue.inFlight,
  ),
  queueGauge(
    "slots",
    "Concurrent requests of this gateway that its ready replicas can process.",
    (queue) => queue.capacity,
  ),
  {
    name: "metalbridge_gateway_ready_replicas",
    type: "gauge",
    help: "Replicas of a service that receive requests.",
    labels: MODEL,
    *read({ models }) {
      for (const { key, endpoints } of models.list())
        yield { labels: modelLabelsOf(key), value: endpoints.length };
    },
  },
  {
    name: "metalbridge_gateway_envoy_up",
    type: "gauge",
    help: "1 while Envoy runs.",
    read: ({ isEnvoyRunning }) => [{ value: isEnvoyRunning ? 1 : 0 }],
  },
  {
    name: "metalbridge_gateway_api_requests_total",
    type: "counter",
    help: "Requests to the API server, by verb and status code.",
    labels: ["verb", "code"],
    read: ({ apiRequests }) => apiRequests.samples(),
  },
  {
    name: "metalbridge_gateway_tokens_total",
    type: "counter",
    help: "Tokens by key, service, and host or node; type input includes type cached, the prompt tokens from the cache of the engine.",
    labels: [...USAGE, "type"],
    *read({ usage }) {
      for (const row of usage) {
        yield { labels: { ...usageLabels(row), type: "input" }, value: row.tokensIn };
        yield { labels: { ...usageLabels(row), type: "cached" }, value: row.tokensCached };
        yield { labels: { ...usageLabels(row), type: "output" }, value: row.tokensOut };
      }
    },
  },
  {
    name: "metalbridge_gateway_key_requests_total",
    type: "counter",
    help: "Requests that a replica processed, by key, service, and host or node.",
    labels: USAGE,
    *read({ usage }) {
      for (const row of usage) yield { labels: usageLabels(row), value: row.requests };
    },
  },
  {
    name: "metalbridge_gateway_estimated_requests_total",
    type: "counter",
    help: "Requests whose tokens were estimated because the client left before the engine reported them.",
    labels: USAGE,
    *read({ usage }) {
      for (const row of usage) yield { labels: usageLabels(row), value: row.estimatedRequests };
    },
  },
  {
    name: "metalbridge_gateway_usage_write_failures_total",
    type: "counter",
    help: "Failed writes of the usage record, which are retried automatically.",
    read: ({ usageWriteFailures }) => sampleIfKnown(usageWriteFailures),
  },
  {
    name: "metalbridge_gateway_keys",
    type: "gauge",
    help: "Secrets labeled as keys, by state; invalid ones give no access.",
    labels: ["state"],
    *read({ keys }) {
      yield { labels: { state: "valid" }, value: keys.valid };
      yield { labels: { state: "invalid" }, value: keys.invalid };
    },
  },
  {
    name: "metalbridge_gateway_shared_counters_up",
    type: "gauge",
    help: "1 while limits are counted jointly with other gateways, 0 while the counter server is unavailable.",
    read: ({ areCountersShared }) => (areCountersShared === undefined ? [] : flag(areCountersShared)),
  },
  ...processFamilies,
];

function histogram(
  name: string,
  help: string,
  key: "duration" | "firstByte" | "wait",
): MetricFamily<GatewayFacts> {
  return {
    name,
    type: "histogram",
    help,
    labels: MODEL,
    read: ({ metrics }) => metrics[key].values(),
  };
}

function queueGauge(
  name: string,
  help: string,
  value: (queue: { waiting: number; inFlight: number; capacity: number }) => number,
): MetricFamily<GatewayFacts> {
  return {
    name: `metalbridge_gateway_${name}`,
    type: "gauge",
    help,
    labels: MODEL,
    *read({ queues }) {
      for (const [key, queue] of queues.list()) yield { labels: modelLabelsOf(key), value: value(queue) };
    },
  };
}

function usageLabels({ key, namespace, model, host }: UsageRow): Labels {
  return { key, namespace, service: model, host };
}
