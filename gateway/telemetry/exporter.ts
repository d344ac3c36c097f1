/** Sends spans and metrics of finished requests to an OpenTelemetry collector, as OTLP over HTTP in JSON. If the collector fails, spans are lost, and no request waits. */
import { randomBytes } from "node:crypto";
import type { Histogram } from "../../src/http/metrics/family.ts";
import { createHistogram, observeValue } from "../../src/http/metrics/histogram.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { repeat } from "../../src/util/repeat.ts";
import { type Attribute, describeRequest, nanos, type Span, spanOf, type TracedRequest } from "./span.ts";

export interface TelemetryExporter {
  readonly add: (request: TracedRequest) => void;
  /** Sends all spans and metrics so far. */
  readonly flush: () => Promise<void>;
}

const SEND_MS = 5_000;
const TIMEOUT_MS = 5_000;
/** Further spans are dropped until the next batch is sent. */
const QUEUE_MAX = 4_096;

export function createTelemetryExporter({
  endpoint,
  gateway,
  clock,
  log,
  signal,
}: {
  /** Base URL of the collector, such as http://collector:4318. */
  readonly endpoint: string;
  readonly gateway: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}): TelemetryExporter {
  const base = endpoint.replace(/\/+$/, "");
  const metrics = createHistograms(clock.nowMs());
  let spans: Span[] = [];
  let dropped = 0;
  let hasFailed = false;
  /** False if the collector did not accept it. */
  const send = async (path: string, body: object, lost: number): Promise<boolean> => {
    const problem = await post(`${base}${path}`, body);
    if (problem !== undefined && !hasFailed)
      log.warn({ problem, lost: lost + dropped }, "cannot send spans and metrics; continuing with new ones");
    hasFailed = problem !== undefined;
    return problem === undefined;
  };
  const flush = async (): Promise<void> => {
    const batch = spans;
    spans = [];
    if (batch.length > 0 && (await send("/v1/traces", tracesOf(batch, gateway), batch.length))) dropped = 0;
    const read = metrics.read(clock.nowMs());
    if (read.length > 0) await send("/v1/metrics", metricsOf(read, gateway), 0);
  };
  repeat({ clock, log, signal }, SEND_MS, flush);
  return {
    add: (request) => {
      metrics.add(request);
      if (spans.length >= QUEUE_MAX) {
        dropped += 1;
        return;
      }
      const span = spanOf(request, (bytes) => randomBytes(bytes).toString("hex"));
      if (span !== undefined) spans.push(span);
    },
    flush,
  };
}

/** Returns why the collector did not accept the body; undefined if it did. */
async function post(url: string, body: object): Promise<string | undefined> {
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    await response.arrayBuffer();
    return response.ok ? undefined : `status ${response.status}`;
  } catch (err) {
    return String(err);
  }
}

const scope = { name: "metalbridge-gateway" };

function tracesOf(spans: readonly Span[], gateway: string): object {
  return { resourceSpans: [{ resource: resourceOf(gateway), scopeSpans: [{ scope, spans }] }] };
}

function metricsOf(metrics: readonly object[], gateway: string): object {
  return { resourceMetrics: [{ resource: resourceOf(gateway), scopeMetrics: [{ scope, metrics }] }] };
}

function resourceOf(gateway: string): object {
  const text = (key: string, stringValue: string) => ({ key, value: { stringValue } });
  return { attributes: [text("service.name", scope.name), text("service.instance.id", gateway)] };
}

interface Histograms {
  readonly add: (request: TracedRequest) => void;
  /** In OTLP's JSON, cumulative since the start. Empty before the first request. */
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

// Bounds from the conventions for generative AI.
const DURATION = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const FIRST_TOKEN = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
const TOKENS = Array.from({ length: 14 }, (_, power) => 4 ** power);
const CUMULATIVE = 2;

/** After the conventions for generative AI, which exclude estimated tokens. */
function createHistograms(startMs: number): Histograms {
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
    add: (request) => {
      const { attributes, error } = describeRequest(request);
      const { durationMs, firstByteMs } = request.finished;
      const { tokensIn, tokensOut, isEstimated } = request.tokens;
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
            attributes,
            ...times,
            sum: histogram.sum,
            explicitBounds: histogram.bounds,
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
