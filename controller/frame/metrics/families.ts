/** All metrics of the controller, in the order of the output. */

import type { Host } from "../../../src/api/host.ts";
import { hasJoined } from "../../../src/api/joined.ts";
import { hostBudget } from "../../../src/capacity/placement/budget.ts";
import {
  flag,
  type Labels,
  type MetricFamily,
  type MetricSample,
  sampleIfKnown,
  stateSet,
} from "../../../src/http/metrics/family.ts";
import { processFamilies } from "../../../src/http/metrics/process.ts";
import type { ControllerFacts } from "./facts.ts";
import { serviceFamilies } from "./services.ts";

/** Metrics about the controller's own work. */
const selfFamilies: readonly MetricFamily<ControllerFacts>[] = [
  {
    name: "metalbridge_controller_leading",
    type: "gauge",
    help: "1 while this process is the leader, 0 while it is on standby.",
    read: ({ isLeading }) => flag(isLeading),
  },
  {
    name: "metalbridge_controller_reconcile_duration_seconds",
    type: "histogram",
    help: "Duration of reconciles, by queue: services, hosts, models, fleet.",
    labels: ["queue"],
    read: function* ({ passes }) {
      for (const [queue, { seconds }] of passes) yield { labels: { queue }, histogram: seconds };
    },
  },
  {
    name: "metalbridge_controller_reconcile_errors_total",
    type: "counter",
    help: "Failed reconciles, retried with backoff, by queue.",
    labels: ["queue"],
    read: function* ({ passes }) {
      for (const [queue, { failures }] of passes) yield { labels: { queue }, value: failures };
    },
  },
  {
    name: "metalbridge_controller_queue_depth",
    type: "gauge",
    help: "Queue depth: keys ready or in progress, by queue; reported by the leader only.",
    labels: ["queue"],
    read: function* ({ leader }) {
      for (const [queue, value] of Object.entries(leader?.depths ?? {})) yield { labels: { queue }, value };
    },
  },
  {
    name: "metalbridge_controller_watch_age_seconds",
    type: "gauge",
    help: "Time since the last event or bookmark of the watch of a kind; bookmarks arrive every one to two minutes.",
    labels: ["kind"],
    read: function* ({ leader }): Iterable<MetricSample> {
      for (const { kind, ageMs } of leader?.watches ?? [])
        yield* sampleIfKnown(ageMs === undefined ? undefined : ageMs / 1_000, { kind });
    },
  },
  {
    name: "metalbridge_controller_watch_interruptions_total",
    type: "counter",
    help: "Interruptions and reconnects of the watch of a kind, since this process became leader.",
    labels: ["kind"],
    read: function* ({ leader }) {
      for (const { kind, interruptions } of leader?.watches ?? [])
        yield { labels: { kind }, value: interruptions };
    },
  },
  {
    name: "metalbridge_controller_api_requests_total",
    type: "counter",
    help: "Requests to the API server by verb (WATCH for a watch) and status code; code 0 if no response arrived.",
    labels: ["verb", "code"],
    read: ({ apiRequests }) => apiRequests.samples(),
  },
  {
    name: "metalbridge_controller_moves_total",
    type: "counter",
    help: "Moves by live eviction, by result: Moved, GivenUp (no other machine became ready in time), Blocked (the move did not start).",
    labels: ["result"],
    read: function* ({ moves }) {
      for (const [result, value] of Object.entries(moves)) yield { labels: { result }, value };
    },
  },
];

/** Conditions with a series. Other conditions in a status are not exported. */
export const HOST_CONDITIONS: ReadonlySet<string> = new Set([
  "Ready",
  "Reachable",
  "Lost",
  "MemoryPressure",
  "DiskPressure",
  "ThermalPressure",
  "RuntimesUsable",
  "Drained",
  "Flapping",
]);
const STATUSES = ["True", "False", "Unknown"] as const;

function each(read: (host: Host, labels: Labels) => Iterable<MetricSample>) {
  return function* ({ leader }: ControllerFacts): Iterable<MetricSample> {
    for (const host of leader?.hosts ?? []) yield* read(host, { host: host.metadata.name });
  };
}

/** Metrics from the Host objects, which also cover hosts whose agent Prometheus cannot scrape. */
const controllerHostFamilies: readonly MetricFamily<ControllerFacts>[] = [
  {
    name: "metalbridge_host_condition",
    type: "gauge",
    help: "1 for the current status of a condition of the Host, 0 for the others. Reachable is reported only after an agent has joined.",
    labels: ["host", "condition", "status"],
    read: each(function* (host, labels) {
      for (const { type, status: current } of host.status?.conditions ?? []) {
        if (HOST_CONDITIONS.has(type) && (type !== "Reachable" || hasJoined(host)))
          yield* stateSet({ ...labels, condition: type }, "status", STATUSES, current);
      }
    }),
  },
  {
    name: "metalbridge_host_joined",
    type: "gauge",
    help: "1 if an agent has joined as this host, 0 while the host is only registered.",
    labels: ["host"],
    read: each((host, labels) => flag(hasJoined(host), labels)),
  },
  {
    name: "metalbridge_host_unschedulable",
    type: "gauge",
    help: "1 while the host is cordoned or drained and accepts no new replicas.",
    labels: ["host"],
    read: each(({ spec }, labels) => flag(spec.unschedulable || spec.drain, labels)),
  },
  {
    name: "metalbridge_host_status_memory_claimed_bytes",
    type: "gauge",
    help: "Memory claimed on the host, as last reported by its agent.",
    labels: ["host"],
    read: each(({ status }, labels) => sampleIfKnown(status?.memory?.claimedBytes, labels)),
  },
  {
    name: "metalbridge_host_status_memory_budget_bytes",
    type: "gauge",
    help: "Memory that the scheduler can allocate on the host.",
    labels: ["host"],
    read: each((host, labels) => {
      const budget = hostBudget(host);
      return sampleIfKnown(budget.known ? budget.bytes : undefined, labels);
    }),
  },
];

export const controllerMetrics: readonly MetricFamily<ControllerFacts>[] = [
  ...selfFamilies,
  ...controllerHostFamilies,
  ...serviceFamilies,
  ...processFamilies,
];
