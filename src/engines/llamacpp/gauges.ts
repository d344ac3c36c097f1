/** Metrics of llama-server that show whether it works and makes progress. */
import type { EngineGauges } from "../contract/engine-gauges.ts";
import type { Generated } from "../speed.ts";

export interface Gauges {
  readonly running: number;
  readonly deferred: number;
  /** Decode steps since the start, which increase with every processed token. Absent if the engine is too old to report them. */
  readonly decodeTotal?: number;
  /** Processed and generated tokens since the start. */
  readonly tokensTotal: number;
  /** Generated tokens and their time. Absent if the engine does not report both. */
  readonly generated?: Generated;
}

/** Undefined unless both gauges of requests in flight are present: an incomplete response must not count as idle. */
export function parseGauges(metricsText: string): Gauges | undefined {
  const values = readValues(metricsText);
  const running = count(values, "requests_processing");
  const deferred = count(values, "requests_deferred");
  if (running === undefined || deferred === undefined) return undefined;
  const tokens = count(values, "tokens_predicted_total");
  const seconds = count(values, "tokens_predicted_seconds_total");
  const decodeTotal = count(values, "n_decode_total");
  return {
    running,
    deferred,
    tokensTotal: (count(values, "prompt_tokens_total") ?? 0) + (tokens ?? 0),
    decodeTotal,
    generated: tokens === undefined || seconds === undefined ? undefined : { tokens, seconds },
  };
}

/** All metrics that the agent exports. Undefined if the text is not a response of llama-server. */
export function parseEngineGauges(metricsText: string): EngineGauges | undefined {
  const values = readValues(metricsText);
  if (values.size === 0) return undefined;
  const of = (name: string): number | undefined => count(values, name);
  return {
    running: of("requests_processing"),
    waiting: of("requests_deferred"),
    promptTokens: of("prompt_tokens_total"),
    cachedPromptTokens: of("prompt_tokens_cached_total"),
    generatedTokens: of("tokens_predicted_total"),
    promptSeconds: of("prompt_seconds_total"),
    generationSeconds: of("tokens_predicted_seconds_total"),
    draftTokens: of("spec_decode_num_draft_tokens_total"),
    acceptedDraftTokens: of("spec_decode_num_accepted_tokens_total"),
    // Builds of 2025 reported it; later ones do not.
    kvUseRatio: of("kv_cache_usage_ratio"),
  };
}

function readValues(metricsText: string): Map<string, number> {
  const values = new Map<string, number>();
  for (const line of metricsText.split("\n")) {
    const match = /^llamacpp:([a-z_]+)(?:\{[^}]*\})? (\S+)/.exec(line);
    if (match?.[1] !== undefined) values.set(match[1], Number(match[2]));
  }
  return values;
}

function count(values: ReadonlyMap<string, number>, name: string): number | undefined {
  const value = values.get(name);
  return value !== undefined && Number.isFinite(value) && value >= 0 ? value : undefined;
}
