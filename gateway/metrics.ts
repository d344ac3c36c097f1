/** The gateway's metrics: requests, queues, and those of the process. */
import type { Histogram, Labels, MetricFamily } from "../src/http/metrics/family.ts";
import { createHistogram, observeValue } from "../src/http/metrics/histogram.ts";
import { type ProcessFacts, processFamilies } from "../src/http/metrics/process.ts";
import { createTally, type Tally } from "../src/http/metrics/tally.ts";
import type { Models } from "./models/models.ts";
import type { Queues } from "./queue/queues.ts";
import { type KeyFacts, usageFamilies } from "./usage/metrics.ts";

const SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
const MODEL = ["namespace", "service"];

/** Histograms by model. */
type ByModel = Map<string, { readonly labels: Labels; readonly histogram: Histogram }>;

export interface RequestFigures {
  /** Requests by namespace, service and status code. */
  readonly requests: Tally;
  /** Requests that the gateway refused, by code. */
  readonly refusals: Tally;
  readonly duration: ByModel;
  readonly firstByte: ByModel;
  readonly wait: ByModel;
}

export function createFigures(): RequestFigures {
  return {
    requests: createTally(),
    refusals: createTally(),
    duration: new Map(),
    firstByte: new Map(),
    wait: new Map(),
  };
}

export function observeOf(figures: ByModel, model: string, seconds: number): void {
  let entry = figures.get(model);
  if (entry === undefined) {
    entry = { labels: labelsOf(model), histogram: createHistogram(SECONDS) };
    figures.set(model, entry);
  }
  observeValue(entry.histogram, seconds);
}

/** Labels of a model, from `namespace/name`. */
export function labelsOf(model: string): Labels {
  const [namespace = "", service = ""] = model.split("/");
  return { namespace, service };
}

export interface GatewayFacts extends KeyFacts {
  readonly figures: RequestFigures;
  readonly queues: Queues;
  readonly models: Models;
  readonly isEnvoyRunning: boolean;
  readonly apiRequests: Tally;
  readonly process: ProcessFacts;
}

export const gatewayFamilies: readonly MetricFamily<GatewayFacts>[] = [
  {
    name: "metalbridge_gateway_requests_total",
    type: "counter",
    help: "Finished requests by service and status code; code 0 is a client that left before the response.",
    labels: [...MODEL, "code"],
    read: ({ figures }) => figures.requests.samples(),
  },
  {
    name: "metalbridge_gateway_refused_requests_total",
    type: "counter",
    help: "Requests that the gateway refused, by error code.",
    labels: ["code"],
    read: ({ figures }) => figures.refusals.samples(),
  },
  histogram("request_duration_seconds", "Time from the arrival of a request to its end.", "duration"),
  histogram(
    "time_to_first_byte_seconds",
    "Time from the arrival to the first byte of the response.",
    "firstByte",
  ),
  histogram("queue_wait_seconds", "Time that requests waited for a replica.", "wait"),
  ofQueues("queued_requests", "Requests that wait for a replica.", (queue) => queue.waiting),
  ofQueues(
    "requests_in_flight",
    "Requests that a replica processes for this gateway.",
    (queue) => queue.inFlight,
  ),
  ofQueues(
    "slots",
    "Requests that the ready replicas process at a time for this gateway.",
    (queue) => queue.capacity,
  ),
  {
    name: "metalbridge_gateway_ready_replicas",
    type: "gauge",
    help: "Replicas of a service that receive requests.",
    labels: MODEL,
    *read({ models }) {
      for (const { key, endpoints } of models.list())
        yield { labels: labelsOf(key), value: endpoints.length };
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
  ...usageFamilies,
  ...processFamilies,
];

function histogram(
  name: string,
  help: string,
  figure: "duration" | "firstByte" | "wait",
): MetricFamily<GatewayFacts> {
  return {
    name: `metalbridge_gateway_${name}`,
    type: "histogram",
    help,
    labels: MODEL,
    read: ({ figures }) => figures[figure].values(),
  };
}

function ofQueues(
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
      for (const [key, queue] of queues.list()) yield { labels: labelsOf(key), value: value(queue) };
    },
  };
}
