/** Finished requests, from Envoy's access log: ends each, charges its tokens, and updates the metrics. */
import { isServiceFailure } from "../src/gateway/indicators.ts";
import type { Log } from "../src/util/ports.ts";
import { decodeAssignment } from "./decide/assignment.ts";
import { type Refusal, statusOf } from "./decide/dialect.ts";
import { type FinishedRequest, parseAccessLogLine } from "./envoy/access-log.ts";
import type { TokenUsage } from "./limits/limits.ts";
import { modelLabelsOf, observeByModel, type RequestMetrics } from "./metrics.ts";
import { FAILED_STATUS, type Requests } from "./requests.ts";
import type { TracedRequest } from "./telemetry/span.ts";

export interface FinishedRequestsPorts {
  readonly requests: Pick<Requests, "end">;
  readonly metrics: RequestMetrics;
  /** Host or node of a replica of a service, by its address. */
  readonly hostOf: (model: string, address: string) => string | undefined;
  /** Called for each request that was assigned to a replica. */
  readonly onUsage: (request: TracedRequest) => void;
  readonly log: Log;
}

/** Returns the function that processes lines of the access log. */
export function createFinishedRequests(ports: FinishedRequestsPorts): (lines: readonly string[]) => void {
  const reportTlsFailure = createTlsFailures(ports.log);
  return (lines) => {
    for (const line of lines) {
      const finished = parseAccessLogLine(line);
      if (finished === undefined) continue;
      reportTlsFailure(finished);
      finish(finished, ports);
    }
  };
}

function finish(finished: FinishedRequest, ports: FinishedRequestsPorts): void {
  const { requests, metrics, hostOf, onUsage } = ports;
  const { requestId, status, durationMs, firstByteMs, attempts, endpoint = "" } = finished;
  const assignment = finished.ticket === undefined ? undefined : decodeAssignment(finished.ticket);
  // Without an assignment, the client left between the decision and the replica, or the request was refused.
  const tokens = assignment === undefined ? NO_TOKENS : tokensOf(finished);
  const isSecond = attempts > 1;
  const hasFailed = isSecond || hasReplicaFailed(finished);
  const isCanceled = wasCanceled(finished);
  const tokensPerSecond = requestSpeedOf(finished);
  requests.end(requestId, "finished", { tokens, tokensPerSecond, hasFailed, isCanceled });
  if (assignment === undefined) return;
  const { caller, model, waitedMs, hasWoken, traceParent } = assignment;
  const host = (isSecond ? hostOf(model, endpoint) : undefined) ?? assignment.host;
  metrics.requests.add({ ...modelLabelsOf(model), code: String(status) });
  if (isSecond) metrics.secondTries.add(modelLabelsOf(model));
  observeByModel(metrics.duration, model, durationMs / 1_000);
  observeByModel(metrics.wait, model, waitedMs / 1_000);
  if (firstByteMs !== undefined && !isServiceFailure(status))
    observeByModel(metrics.firstByte, model, Math.max(0, firstByteMs - (hasWoken ? waitedMs : 0)) / 1_000);
  onUsage({ caller, model, host, tokens, finished, traceParent });
}

/** A refusal that the caller has not caused is a failed request of the service. */
export function countRefusal(metrics: RequestMetrics, refusal: Refusal): void {
  metrics.refusals.add({ code: refusal.code });
  const { service } = refusal;
  if (service !== undefined)
    metrics.requests.add({ ...modelLabelsOf(service), code: String(statusOf(refusal)) });
}

/** Average bytes per token of an English prompt. */
const PROMPT_BYTES = 4;
/** Their uploads are audio, not text. */
const AUDIO_PATH = /\/audio\/trans(cription|lation)s$/;
/** Bytes per token of a streamed response: one event with its JSON. */
const STREAM_BYTES = 180;
const NO_TOKENS: TokenUsage = { tokensIn: 0, tokensOut: 0, cached: 0, isEstimated: false };

/** Tokens as reported by the engine, or an estimate if the client left before the report. */
export function tokensOf(finished: FinishedRequest): TokenUsage {
  const { tokens, bytesReceived, bytesSent, status, firstByteMs, path } = finished;
  if (tokens !== undefined)
    return { tokensIn: tokens.in, tokensOut: tokens.out, cached: tokens.cached, isEstimated: false };
  // The replica refused the request or never received it.
  if (status >= 400 || finished.endpoint === undefined) return NO_TOKENS;
  return {
    tokensIn: AUDIO_PATH.test(path) ? 0 : Math.ceil(bytesReceived / PROMPT_BYTES),
    tokensOut: firstByteMs === undefined ? 0 : Math.ceil(bytesSent / STREAM_BYTES),
    cached: 0,
    isEstimated: true,
  };
}

/** Minimum number of tokens for a meaningful speed. */
const MIN_TOKENS = 16;

/** Tokens per second of one request, including its prompt. */
export function requestSpeedOf({ tokens, durationMs }: FinishedRequest): number | undefined {
  if (tokens === undefined || tokens.out < MIN_TOKENS || durationMs <= 0) return undefined;
  return (tokens.out * 1_000) / durationMs;
}

/** Envoy's flags for a replica that did not answer: connection failure or termination, reset, no healthy host. */
const FAILURES = new Set(["UF", "UC", "UR", "UH", "URX"]);

export function hasReplicaFailed({ flags = "", status }: FinishedRequest): boolean {
  return (status === 0 || status >= FAILED_STATUS) && flags.split(",").some((flag) => FAILURES.has(flag));
}

/** Envoy's flags for a request that its client or Envoy gave up: disconnected, reset, idle for too long, timeout. */
const GIVEN_UP = new Set(["DC", "DR", "SI", "UT"]);

/** True if a replica got the request and had not responded when it was given up. */
export function wasCanceled({ flags = "", endpoint, firstByteMs }: FinishedRequest): boolean {
  return (
    endpoint !== undefined && firstByteMs === undefined && flags.split(",").some((flag) => GIVEN_UP.has(flag))
  );
}

/** Warns about replicas whose certificate cannot be verified: once per service, until a replica answers. */
export function createTlsFailures(
  log: Log,
): (finished: Pick<FinishedRequest, "cluster" | "endpoint" | "details">) => void {
  const reported = new Set<string>();
  return ({ cluster: service, endpoint, details }) => {
    if (service === undefined) return;
    if (details === "via_upstream") reported.delete(service);
    if (details?.includes("TLS_error") !== true || reported.has(service)) return;
    reported.add(service);
    log.warn(
      { service, endpoint, details },
      "TLS to a replica failed; check its certificate and --upstream-ca",
    );
  };
}
