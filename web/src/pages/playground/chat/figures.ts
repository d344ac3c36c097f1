/** Figures of one answer. Pure. */
import type { Delta, Usage } from "./stream.ts";

/** What is known of an answer while it is written. */
export interface Timing {
  readonly startMs: number;
  readonly firstMs?: number | undefined;
  readonly lastMs?: number | undefined;
  /** Events with text. Engines send a token per event, or a few. */
  readonly pieces: number;
  readonly usage?: Usage | undefined;
  readonly tokensPerSecond?: number | undefined;
}

export interface Figures {
  readonly firstTokenMs: number | undefined;
  readonly tokensPerSecond: number | undefined;
  readonly tokens: number;
  readonly promptTokens: number | undefined;
  /** The engine has not reported its usage: the events are counted instead. */
  readonly isEstimated: boolean;
}

/** A shorter answer arrives at once, in which case its speed is that of the network. */
const MIN_WRITING_MS = 100;

export function addToTiming(timing: Timing, delta: Delta, nowMs: number): Timing {
  const { text, reasoning, usage = timing.usage, tokensPerSecond = timing.tokensPerSecond } = delta;
  const next = { ...timing, usage, tokensPerSecond };
  if (text === "" && reasoning === "") return next;
  return { ...next, firstMs: timing.firstMs ?? nowMs, lastMs: nowMs, pieces: timing.pieces + 1 };
}

/** The engine's own speed, or that of the tokens after the first, which ends the prompt. */
export function figuresOf({ startMs, firstMs, lastMs, pieces, usage, tokensPerSecond }: Timing): Figures {
  const tokens = usage?.completion_tokens ?? pieces;
  const writingMs = firstMs === undefined || lastMs === undefined ? 0 : lastMs - firstMs;
  const measured = tokens > 1 && writingMs >= MIN_WRITING_MS ? (1_000 * (tokens - 1)) / writingMs : undefined;
  return {
    firstTokenMs: firstMs === undefined ? undefined : firstMs - startMs,
    tokensPerSecond: tokensPerSecond ?? measured,
    tokens,
    promptTokens: usage?.prompt_tokens,
    isEstimated: usage?.completion_tokens === undefined,
  };
}
