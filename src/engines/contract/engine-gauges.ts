/** Metrics of an engine under common names. Metrics that the engine does not report are absent. */

export interface EngineGauges {
  /** Number of running requests. */
  readonly running?: number | undefined;
  /** Number of requests that are queued in the engine. */
  readonly waiting?: number | undefined;
  /** Counters since the start of the engine, like the following. Tokens from the cache are counted separately. */
  readonly promptTokens?: number | undefined;
  readonly cachedPromptTokens?: number | undefined;
  readonly generatedTokens?: number | undefined;
  readonly promptSeconds?: number | undefined;
  readonly generationSeconds?: number | undefined;
  readonly draftTokens?: number | undefined;
  readonly acceptedDraftTokens?: number | undefined;
  /** Fraction of the KV cache in use, from 0 to 1. */
  readonly kvUseRatio?: number | undefined;
}
