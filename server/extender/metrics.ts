/** The metrics of the scheduler extender, which the server exports while it has the extender's port. */
import type { Histogram, MetricFamily } from "../../src/http/metrics/family.ts";
import { createHistogram } from "../../src/http/metrics/histogram.ts";
import { createTally, type Tally } from "../../src/http/metrics/tally.ts";

export const EXTENDER_VERBS = ["filter", "prioritize"] as const;
export type ExtenderVerb = (typeof EXTENDER_VERBS)[number];

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1];

export interface ExtenderCounters {
  readonly requests: Tally;
  readonly candidates: Tally;
  readonly seconds: Readonly<Record<ExtenderVerb, Histogram>>;
}

export function createExtenderCounters(): ExtenderCounters {
  return {
    requests: createTally(),
    candidates: createTally(),
    seconds: { filter: createHistogram(SECONDS), prioritize: createHistogram(SECONDS) },
  };
}

export const extenderMetrics: readonly MetricFamily<ExtenderCounters>[] = [
  {
    name: "metalbridge_extender_requests_total",
    type: "counter",
    help: "Requests of schedulers, by verb and status code.",
    labels: ["verb", "code"],
    read: ({ requests }) => requests.samples(),
  },
  {
    name: "metalbridge_extender_request_seconds",
    type: "histogram",
    help: "Time from the headers of a request to its response.",
    labels: ["verb"],
    read: ({ seconds }) => EXTENDER_VERBS.map((verb) => ({ labels: { verb }, histogram: seconds[verb] })),
  },
  {
    name: "metalbridge_extender_candidates_total",
    type: "counter",
    help: "Nodes in filter requests, by result: passed, rejected, or unknown if the extender has not seen the node.",
    labels: ["result"],
    read: ({ candidates }) => candidates.samples(),
  },
];
