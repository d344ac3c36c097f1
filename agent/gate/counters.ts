/** A gate's counters per route: fixed buckets and plain numbers, so that counting a token costs next to nothing. */
import type { Histogram } from "../../src/http/metrics/family.ts";
import { createHistogram, observeValue } from "../../src/http/metrics/histogram.ts";

const FIRST_BYTE_BOUNDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120];
const GAP_BOUNDS = [0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5, 30];

export interface RouteCounters {
  /** Finished requests by HTTP status; 499: the client closed the connection, 599: the response was cut short. */
  readonly requests: Record<string, number>;
  /** Rejected requests, by reason. */
  readonly refused: Record<string, number>;
  /** Seconds from a complete request to the first byte of the daemon's answer. */
  readonly firstByte: Histogram;
  /** Seconds between two reads of an answer; in a stream, between tokens. */
  readonly gaps: Histogram;
  /** Streamed answers, whose first byte comes with the first token, and the seconds until then. */
  readonly streams: { count: number; firstByteSeconds: number };
}

export function createCounters(): RouteCounters {
  return {
    requests: {},
    refused: {},
    firstByte: createHistogram(FIRST_BYTE_BOUNDS),
    gaps: createHistogram(GAP_BOUNDS),
    streams: { count: 0, firstByteSeconds: 0 },
  };
}

export function incrementCount(counts: Record<string, number>, label: string | number): void {
  counts[label] = (counts[label] ?? 0) + 1;
}

/** Adds the counters of another gate, such as the one before an upgrade. */
export function addCounters(to: RouteCounters, from: RouteCounters): void {
  for (const kind of ["requests", "refused"] as const)
    for (const [label, value] of Object.entries(from[kind])) to[kind][label] = (to[kind][label] ?? 0) + value;
  for (const kind of ["firstByte", "gaps"] as const) {
    for (const [bucket, value] of from[kind].counts.entries())
      to[kind].counts[bucket] = (to[kind].counts[bucket] ?? 0) + value;
    to[kind].sum += from[kind].sum;
  }
  to.streams.count += from.streams.count;
  to.streams.firstByteSeconds += from.streams.firstByteSeconds;
}

/** Counts the first byte of an answer. */
export function countFirstByte(counters: RouteCounters, seconds: number, isStream: boolean): void {
  observeValue(counters.firstByte, seconds);
  if (!isStream) return;
  counters.streams.count += 1;
  counters.streams.firstByteSeconds += seconds;
}
