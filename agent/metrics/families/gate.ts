/** The gate's metrics of each replica, including the latencies that an engine does not report. */
import type { MetricFamily } from "../../../src/http/metrics/family.ts";
import { labeledReadings, REPLICA_LABELS, type Scrape } from "./scrape.ts";

function readings(scrape: Scrape) {
  return labeledReadings(scrape, new Map(scrape.gate.map((reading) => [reading.id, reading])));
}

function counter(
  key: "requests" | "refused",
  label: string,
  name: string,
  help: string,
): MetricFamily<Scrape> {
  const read = function* (scrape: Scrape) {
    for (const [{ counters }, labels] of readings(scrape))
      for (const [value, count] of Object.entries(counters[key]))
        yield { labels: { ...labels, [label]: value }, value: count };
  };
  return { name, type: "counter", help, labels: [...REPLICA_LABELS, label], read };
}

function histogram(key: "firstByte" | "gaps", name: string, help: string): MetricFamily<Scrape> {
  const read = function* (scrape: Scrape) {
    for (const [{ counters }, labels] of readings(scrape)) yield { labels, histogram: counters[key] };
  };
  return { name, type: "histogram", help, labels: REPLICA_LABELS, read };
}

export const gateFamilies: readonly MetricFamily<Scrape>[] = [
  counter(
    "requests",
    "code",
    "metalbridge_gate_requests_total",
    "Requests answered through the gate, by status code; 499: the client disconnected, 599: the response was interrupted.",
  ),
  counter(
    "refused",
    "reason",
    "metalbridge_gate_refused_total",
    "Requests that the gate rejected without passing them to the engine, by reason.",
  ),
  {
    name: "metalbridge_gate_requests_in_flight",
    type: "gauge",
    help: "Requests in flight through the gate.",
    labels: REPLICA_LABELS,
    read: function* (scrape) {
      for (const [{ inFlight }, labels] of readings(scrape))
        if (inFlight !== "unknown") yield { labels, value: inFlight };
    },
  },
  histogram(
    "firstByte",
    "metalbridge_gate_first_byte_duration_seconds",
    "Time from the complete request to the first byte of the engine's response.",
  ),
  histogram(
    "gaps",
    "metalbridge_gate_gap_duration_seconds",
    "Time between two reads of a response; for streamed responses, the time between tokens.",
  ),
];
