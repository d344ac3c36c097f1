/** Sends spans to a collector of OpenTelemetry, as OTLP over HTTP in JSON. A collector that fails loses spans, and delays nothing. */
import { randomBytes } from "node:crypto";
import type { Clock, Log } from "../../src/util/ports.ts";
import { repeat } from "../../src/util/repeat.ts";
import { type Span, spanOf, type TracedRequest } from "./span.ts";

export interface SpanExporter {
  readonly add: (ended: TracedRequest) => void;
  /** Sends the spans so far. */
  readonly flush: () => Promise<void>;
}

const SEND_MS = 5_000;
const TIMEOUT_MS = 5_000;
/** Further spans are dropped until the next batch is sent. */
const QUEUE_MAX = 4_096;

export function createSpanExporter({
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
}): SpanExporter {
  const url = `${endpoint.replace(/\/+$/, "")}/v1/traces`;
  let spans: Span[] = [];
  let dropped = 0;
  let hasFailed = false;
  const failed = (problem: unknown, lost: number): void => {
    const line = { problem, lost: lost + dropped };
    if (!hasFailed) log.warn(line, "cannot send spans; later ones are tried");
    hasFailed = true;
  };
  const flush = async (): Promise<void> => {
    const batch = spans;
    if (batch.length === 0) return;
    spans = [];
    try {
      const response = await fetch(url, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(requestOf(batch, gateway)),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      await response.arrayBuffer();
      if (!response.ok) return failed(`status ${response.status}`, batch.length);
      hasFailed = false;
      dropped = 0;
    } catch (err) {
      failed(String(err), batch.length);
    }
  };
  repeat({ clock, log, signal }, SEND_MS, flush);
  return {
    add: (ended) => {
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

function requestOf(spans: readonly Span[], gateway: string): object {
  const text = (key: string, stringValue: string) => ({ key, value: { stringValue } });
  const attributes = [text("service.name", "metalbridge-gateway"), text("service.instance.id", gateway)];
  const scopeSpans = [{ scope: { name: "metalbridge-gateway" }, spans }];
  return { resourceSpans: [{ resource: { attributes }, scopeSpans }] };
}
