/** Sends spans and metrics to a collector of OpenTelemetry, as OTLP over HTTP in JSON. A collector that fails loses spans, and delays nothing. */
import { randomBytes } from "node:crypto";
import type { Clock, Log } from "../../src/util/ports.ts";
import { repeat } from "../../src/util/repeat.ts";
import { createRequestMetrics } from "./metrics.ts";
import { type Span, spanOf, type TracedRequest } from "./span.ts";

export interface TelemetryExporter {
  readonly add: (ended: TracedRequest) => void;
  /** Sends the spans and metrics so far. */
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
  const metrics = createRequestMetrics(clock.nowMs());
  let spans: Span[] = [];
  let dropped = 0;
  let hasFailed = false;
  /** False if the collector has not accepted it. */
  const send = async (path: string, body: object, lost: number): Promise<boolean> => {
    const problem = await post(`${base}${path}`, body);
    if (problem !== undefined && !hasFailed)
      log.warn({ problem, lost: lost + dropped }, "cannot send spans and metrics; later ones are tried");
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
    add: (ended) => {
      metrics.add(ended);
      if (spans.length >= QUEUE_MAX) {
        dropped += 1;
        return;
      }
      const span = spanOf(ended, (bytes) => randomBytes(bytes).toString("hex"));
      if (span !== undefined) spans.push(span);
    },
    flush,
  };
}

/** Returns the reason why the collector has not accepted the body. */
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
