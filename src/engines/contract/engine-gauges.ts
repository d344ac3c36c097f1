/** What any engine may tell of its work, under one naming. Absent: this engine does not tell. */

export interface EngineGauges {
  /** Requests being worked on. */
  readonly running?: number | undefined;
  /** Requests that wait for their turn in the engine. */
  readonly waiting?: number | undefined;
  /** Since the engine's start, as all that follow. Tokens taken from its cache are counted apart. */
  readonly promptTokens?: number | undefined;
  readonly cachedPromptTokens?: number | undefined;
  readonly generatedTokens?: number | undefined;
  readonly promptSeconds?: number | undefined;
  readonly generationSeconds?: number | undefined;
  readonly draftTokens?: number | undefined;
  readonly acceptedDraftTokens?: number | undefined;
  /** Share of the KV cache in use now, 0 to 1. */
  readonly kvUseRatio?: number | undefined;
}
