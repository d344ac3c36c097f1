/** Metrics from the Host objects, which also cover hosts whose agent Prometheus cannot scrape. */
import type { Host } from "../../src/api/host.ts";
import { hasJoined } from "../../src/api/joined.ts";
import { hostBudget } from "../../src/capacity/placement/budget.ts";
import {
  flag,
  type Labels,
  type MetricFamily,
  type MetricSample,
  sampleIfKnown,
  stateSet,
} from "../../src/http/metrics/family.ts";
import type { ControllerFacts } from "./facts.ts";

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

export const controllerHostFamilies: readonly MetricFamily<ControllerFacts>[] = [
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
