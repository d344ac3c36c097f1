/** Envoy's access log: the format of its lines, and their parser. It contains no prompt, query or key. Pure. */
import { z } from "zod";
import { parseJson } from "../../src/util/parse-json.ts";
import { HEADERS, METADATA_NAMESPACES } from "./names.ts";

/** A finished request. */
export interface FinishedRequest {
  /** The encoded `Assignment` of the decision; absent: refused, or never asked. */
  readonly ticket?: string;
  readonly requestId: string;
  readonly status: number;
  /** Envoy's response flags, such as DC (client disconnected) or UH (no healthy endpoint); absent: none. */
  readonly flags?: string;
  /** Envoy's reason for a local reply, or via_upstream. */
  readonly details?: string;
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly cluster?: string;
  /** `ip:port` of the endpoint that answered or was tried last. */
  readonly endpoint?: string;
  readonly attempts: number;
  readonly bytesReceived: number;
  readonly bytesSent: number;
  /** Arrival in ms since the epoch. */
  readonly startedMs: number;
  readonly durationMs: number;
  /** Time from arrival to the first byte of the response; absent: no endpoint responded. */
  readonly firstByteMs?: number;
  /** Absent: the response had no usage or an implausible one, or the client left before it. `in` includes `cached`. */
  readonly tokens?: { readonly in: number; readonly out: number; readonly cached: number };
}

const usage = (key: string) => `%DYNAMIC_METADATA(${METADATA_NAMESPACES.usage}:${key})%`;

/** Envoy writes null for missing values. */
export function renderLogFormat(): Readonly<Record<string, unknown>> {
  return {
    ticket: `%DYNAMIC_METADATA(${METADATA_NAMESPACES.decision}:${HEADERS.ticket})%`,
    id: "%REQ(X-REQUEST-ID)%",
    status: "%RESPONSE_CODE%",
    flags: "%RESPONSE_FLAGS%",
    details: "%RESPONSE_CODE_DETAILS%",
    // Unauthenticated clients choose both, so their length is limited.
    method: "%REQ(:METHOD):32%",
    path: "%PATH(NQ):512%",
    cluster: "%UPSTREAM_CLUSTER_RAW%",
    endpoint: "%UPSTREAM_HOST%",
    attempts: "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
    received: "%BYTES_RECEIVED%",
    sent: "%BYTES_SENT%",
    start: "%START_TIME(%s%3f)%",
    duration: "%DURATION%",
    firstByte: "%RESPONSE_DURATION%",
    usage: {
      in: usage("in"),
      out: usage("out"),
      cached: usage("cached"),
      apart: usage("apart"),
      prompt_n: usage("prompt_n"),
      predicted_n: usage("predicted_n"),
      cache_n: usage("cache_n"),
    },
  };
}

const text = z.string().nullish();
const count = z.number().nonnegative().nullish();
/** NaN for an invalid count: the rest of the line is still valid. */
const reported = z.int().nonnegative().nullish().catch(Number.NaN);
const line = z.object({
  ticket: text,
  id: text,
  status: z.number(),
  flags: text,
  details: text,
  method: text,
  path: text,
  cluster: text,
  endpoint: text,
  attempts: count,
  received: z.number(),
  sent: z.number(),
  start: z.coerce.number(),
  duration: z.number(),
  firstByte: count,
  usage: z.object({
    in: reported,
    out: reported,
    cached: reported,
    apart: reported,
    prompt_n: reported,
    predicted_n: reported,
    cache_n: reported,
  }),
});

type Usage = z.infer<typeof line>["usage"];

/** Undefined for an incomplete line, such as the last one of a killed Envoy. */
export function parseAccessLogLine(source: string): FinishedRequest | undefined {
  const parsed = line.safeParse(parseJson(source));
  if (!parsed.success) return undefined;
  const { data } = parsed;
  return {
    ticket: data.ticket ?? undefined,
    requestId: data.id ?? "",
    status: data.status,
    flags: data.flags === "-" ? undefined : (data.flags ?? undefined),
    details: data.details ?? undefined,
    method: data.method ?? "",
    path: data.path ?? "",
    cluster: data.cluster ?? undefined,
    endpoint: data.endpoint ?? undefined,
    attempts: data.attempts ?? 0,
    bytesReceived: data.received,
    bytesSent: data.sent,
    startedMs: data.start,
    durationMs: data.duration,
    firstByteMs: data.firstByte ?? undefined,
    tokens: tokensOf(data),
  };
}

/** Allowance for tokens that are not in the bytes: a chat template, an image behind a URL, omitted reasoning. */
const TOKENS_BEYOND_BYTES = 4_096;

/** Undefined if there are more tokens than bytes: a faulty engine must not spend a key's budget. */
function tokensOf({ usage, received, sent }: z.infer<typeof line>): FinishedRequest["tokens"] {
  const tokens = countedTokens(usage);
  const isUsable =
    tokens !== undefined &&
    tokens.in <= received + TOKENS_BEYOND_BYTES &&
    tokens.out <= sent + TOKENS_BEYOND_BYTES &&
    tokens.cached <= tokens.in;
  return isUsable ? tokens : undefined;
}

/** Anthropic, and llama-server in its timings, count cached tokens separately from input tokens. */
function countedTokens(usage: Usage): FinishedRequest["tokens"] {
  if (usage.in != null || usage.out != null) {
    const apart = usage.apart ?? 0;
    return { in: (usage.in ?? 0) + apart, out: usage.out ?? 0, cached: (usage.cached ?? 0) + apart };
  }
  if (usage.predicted_n == null) return undefined;
  const cached = usage.cache_n ?? 0;
  return { in: (usage.prompt_n ?? 0) + cached, out: usage.predicted_n, cached };
}
