/** Metrics about the controller's own work. */
import { flag, type MetricFamily, type MetricSample, sampleIfKnown } from "../../src/http/metrics/family.ts";
import type { ControllerFacts } from "./facts.ts";

export const selfFamilies: readonly MetricFamily<ControllerFacts>[] = [
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
