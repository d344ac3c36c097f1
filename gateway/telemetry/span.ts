/** A finished request as an OpenTelemetry span, with the attributes of the conventions for generative AI. Pure. */
import type { FinishedRequest } from "../envoy/access-log.ts";
import type { TokenUsage } from "../limits/limits.ts";

/** A finished request with the data for its span. */
export interface TracedRequest {
  /** Id of the key or user. */
  readonly caller: string;
  /** `namespace/name` of the service. */
  readonly model: string;
  /** Host or node. */
  readonly host: string;
  readonly tokens: TokenUsage;
  readonly finished: FinishedRequest;
  /** The client's trace. */
  readonly traceParent: string | undefined;
}

/** A span in OTLP's JSON. */
export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly Attribute[];
  readonly status: { readonly code?: number };
}

/** An attribute in OTLP's JSON. */
export interface Attribute {
  readonly key: string;
  readonly value:
    | { readonly stringValue: string }
    | { readonly intValue: string }
    | { readonly boolValue: boolean };
}

const CLIENT = 3;
const ERROR = 2;
const FIRST_ERROR = 400;
const NANOS_PER_MS = 1_000_000n;
const SAMPLED = 1;

/** Values of `gen_ai.operation.name` by the end of the path. */
const OPERATIONS: readonly (readonly [end: string, operation: string])[] = [
  ["/chat/completions", "chat"],
  ["/messages", "chat"],
  ["/responses", "chat"],
  ["/completions", "text_completion"],
  ["/embeddings", "embeddings"],
];

interface TraceParent {
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
}

/** Parses a W3C `traceparent` header. Undefined if it is invalid. */
function parseTraceParent(text: string): TraceParent | undefined {
  const match = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/.exec(text);
  const [, traceId = "", spanId = "", flags = ""] = match ?? [];
  if (match === null || /^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & SAMPLED) !== 0 };
}

/** Returns the header if it is valid. */
export function readTraceParent(text: string | undefined): string | undefined {
  return text !== undefined && parseTraceParent(text) !== undefined ? text : undefined;
}

/** Undefined if the client's trace is not sampled. `randomHex` returns random bytes as hexadecimal digits. */
export function spanOf(
  { caller, model, host, tokens, finished, traceParent }: TracedRequest,
  randomHex: (bytes: number) => string,
): Span | undefined {
  const parent = traceParent === undefined ? undefined : parseTraceParent(traceParent);
  if (parent?.isSampled === false) return undefined;
  const { status, startedMs, durationMs } = finished;
  const { attributes, error } = describeRequest({ model, finished });
  const strings = { ...attributes, "metalbridge.host": host, "metalbridge.key": caller, ...error };
  const counts = {
    "gen_ai.usage.input_tokens": tokens.tokensIn,
    "gen_ai.usage.output_tokens": tokens.tokensOut,
    "http.response.status_code": status,
  };
  return {
    traceId: parent?.traceId ?? randomHex(16),
    spanId: randomHex(8),
    parentSpanId: parent?.spanId,
    name: `${attributes["gen_ai.operation.name"]} ${attributes["gen_ai.request.model"]}`,
    kind: CLIENT,
    startTimeUnixNano: nanos(startedMs),
    endTimeUnixNano: nanos(startedMs + durationMs),
    attributes: [
      ...Object.entries(strings).map(([key, stringValue]) => ({ key, value: { stringValue } })),
      ...Object.entries(counts).map(([key, count]) => ({ key, value: { intValue: String(count) } })),
      { key: "metalbridge.tokens_estimated", value: { boolValue: tokens.isEstimated } },
    ],
    status: error === undefined ? {} : { code: ERROR },
  };
}

/** Attributes that spans and metrics share, and the error attribute of a failed request. */
export function describeRequest({ model, finished }: Pick<TracedRequest, "model" | "finished">) {
  const { path, status, flags } = finished;
  const [namespace = "", name = ""] = model.split("/");
  const hasFailed = status === 0 || status >= FIRST_ERROR;
  return {
    attributes: {
      "gen_ai.operation.name": OPERATIONS.find(([end]) => path.endsWith(end))?.[1] ?? "other",
      "gen_ai.provider.name": "metalbridge",
      "gen_ai.request.model": name,
      "metalbridge.namespace": namespace,
    },
    error: hasFailed ? { "error.type": flags ?? String(status) } : undefined,
  };
}

/** Nanoseconds in OTLP's JSON. */
export function nanos(ms: number): string {
  return String(BigInt(Math.round(ms)) * NANOS_PER_MS);
}
