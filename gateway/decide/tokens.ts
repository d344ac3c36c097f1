/** Figures of a finished request: its tokens, its speed, and its failure. Pure. */
import type { FinishedRequest } from "../envoy/access-log.ts";
import type { TokenUsage } from "../limits/limits.ts";

/** Bytes of a prompt per token; English text has about four. */
const PROMPT_BYTES = 4;
/** Uploads of these are no text. */
const AUDIO_PATH = /\/audio\/trans(cription|lation)s$/;
/** Bytes of a streamed response per token: one event with its JSON. */
const STREAM_BYTES = 180;
const NONE: TokenUsage = { tokensIn: 0, tokensOut: 0, cached: 0, isEstimated: false };

/** Tokens as the engine reported them, or an estimate if the client left before that. */
export function tokensOf(finished: FinishedRequest): TokenUsage {
  const { tokens, bytesReceived, bytesSent, status, firstByteMs, path } = finished;
  if (tokens !== undefined)
    return { tokensIn: tokens.in, tokensOut: tokens.out, cached: tokens.cached, isEstimated: false };
  // No replica has worked on a request that it refused or that it never got.
  if (status >= 400 || finished.endpoint === undefined) return NONE;
  return {
    tokensIn: AUDIO_PATH.test(path) ? 0 : Math.ceil(bytesReceived / PROMPT_BYTES),
    tokensOut: firstByteMs === undefined ? 0 : Math.ceil(bytesSent / STREAM_BYTES),
    cached: 0,
    isEstimated: true,
  };
}

/** A request with fewer tokens says little about the speed of its replica. */
const MIN_TOKENS = 16;

/** Tokens per second of one request, its prompt included. */
export function speedOf({ tokens, durationMs }: FinishedRequest): number | undefined {
  if (tokens === undefined || tokens.out < MIN_TOKENS || durationMs <= 0) return undefined;
  return (tokens.out * 1_000) / durationMs;
}

/** Flags of Envoy for a replica that did not answer: connection failure or termination, reset, no healthy host. */
const FAILURES = new Set(["UF", "UC", "UR", "UH", "URX"]);

export function hasReplicaFailed({ flags = "", status }: FinishedRequest): boolean {
  return (status === 0 || status >= 502) && flags.split(",").some((flag) => FAILURES.has(flag));
}
