/** Finished requests as metrics of OpenTelemetry, after its conventions for generative AI: histograms per model and operation. */
import type { Histogram } from "../../src/http/metrics/family.ts";
import { createHistogram, observeValue } from "../../src/http/metrics/histogram.ts";
import { type Attribute, describeRequest, nanos, type TracedRequest } from "./span.ts";

export interface RequestMetrics {
  readonly add: (ended: TracedRequest) => void;
  /** Metrics in the JSON of OTLP, cumulative since the start. Empty before the first request. */
  readonly read: (nowMs: number) => readonly object[];
}

interface Instrument {
  readonly name: string;
  readonly unit: string;
  readonly description: string;
  readonly bounds: readonly number[];
  /** By their attributes. */
  readonly series: Map<string, { readonly attributes: readonly Attribute[]; readonly histogram: Histogram }>;
}

// The bounds are those of the conventions.
const DURATION = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const FIRST_TOKEN = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
const TOKENS = Array.from({ length: 14 }, (_, power) => 4 ** power);
const CUMULATIVE = 2;

/** Tokens that are estimated are not in the metrics, as the conventions require. */
export function createRequestMetrics(startMs: number): RequestMetrics {
  const duration = instrument(
    "gen_ai.server.request.duration",
    "s",
    "Time from the arrival of a request to its end.",
    DURATION,
  );
  const firstToken = instrument(
    "gen_ai.server.time_to_first_token",
    "s",
    "Time from the arrival of a request to the first byte of a successful response.",
    FIRST_TOKEN,
  );
  const tokens = instrument(
    "gen_ai.client.token.usage",
    "{token}",
    "Input and output tokens of a request.",
    TOKENS,
  );
  return {
    add: (ended) => {
      const { attributes, error } = describeRequest(ended);
      const { durationMs, firstByteMs } = ended.finished;
      const { tokensIn, tokensOut, isEstimated } = ended.tokens;
      observe(duration, { ...attributes, ...error }, durationMs / 1_000);
      if (error === undefined && firstByteMs !== undefined)
        observe(firstToken, attributes, firstByteMs / 1_000);
      if (isEstimated || tokensIn + tokensOut === 0) return;
      observe(tokens, { ...attributes, "gen_ai.token.type": "input" }, tokensIn);
      observe(tokens, { ...attributes, "gen_ai.token.type": "output" }, tokensOut);
    },
    read: (nowMs) => {
      const times = { startTimeUnixNano: nanos(startMs), timeUnixNano: nanos(nowMs) };
      return [duration, firstToken, tokens]
        .filter(({ series }) => series.size > 0)
        .map(({ name, unit, description, series }) => {
          const dataPoints = Array.from(series.values(), ({ attributes, histogram }) => ({
            ...{ attributes, ...times, sum: histogram.sum, explicitBounds: histogram.bounds },
            count: String(histogram.counts.reduce((sum, count) => sum + count, 0)),
            bucketCounts: histogram.counts.map(String),
          }));
          return { name, unit, description, histogram: { aggregationTemporality: CUMULATIVE, dataPoints } };
        });
    },
  };
}

function instrument(name: string, unit: string, description: string, bounds: readonly number[]): Instrument {
  return { name, unit, description, bounds, series: new Map() };
}

function observe(
  { series, bounds }: Instrument,
  attributes: Readonly<Record<string, string>>,
  value: number,
): void {
  const id = JSON.stringify(attributes);
  let one = series.get(id);
  if (one === undefined) {
    const list = Object.entries(attributes).map(([key, stringValue]) => ({ key, value: { stringValue } }));
    one = { attributes: list, histogram: createHistogram(bounds) };
    series.set(id, one);
  }
  observeValue(one.histogram, value);
}
