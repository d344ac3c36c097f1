/** The events of a streamed chat completion, and its figures. */
import { createParser } from "eventsource-parser";
import { ConsoleError, gatewayError } from "../../api/request.ts";

export interface Usage {
  readonly prompt_tokens?: number;
  readonly completion_tokens?: number;
}

/** What one event adds to the answer. */
export interface Delta {
  readonly text: string;
  /** Thoughts of a reasoning model. */
  readonly reasoning: string;
  readonly finish?: string | undefined;
  readonly usage?: Usage | undefined;
  /** Measured by the engine, if it says so. */
  readonly tokensPerSecond?: number | undefined;
}

interface Chunk {
  readonly choices?: readonly {
    readonly delta?: {
      readonly content?: string | null;
      readonly reasoning_content?: string | null;
      readonly reasoning?: string | null;
    };
    readonly finish_reason?: string | null;
  }[];
  readonly usage?: Usage | null;
  /** Sent by llama-server only. */
  readonly timings?: { readonly predicted_per_second?: number };
  readonly error?: { readonly message?: string };
}

/** Undefined for an event that adds nothing. Throws ConsoleError for an error of the engine, SyntaxError for broken JSON. */
export function parseDelta(data: string): Delta | undefined {
  if (data === "[DONE]") return undefined;
  const chunk = JSON.parse(data) as Chunk;
  if (chunk.error !== undefined) throw gatewayError({ error: chunk.error }, 500);
  const [choice] = chunk.choices ?? [];
  const { content, reasoning_content, reasoning } = choice?.delta ?? {};
  return {
    text: content ?? "",
    reasoning: reasoning_content ?? reasoning ?? "",
    finish: choice?.finish_reason ?? undefined,
    usage: chunk.usage ?? undefined,
    tokensPerSecond: chunk.timings?.predicted_per_second,
  };
}

/** Calls `onDelta` for each event until the stream ends. Throws ConsoleError if it ends before the answer. */
export async function readStream(
  stream: ReadableStream<Uint8Array>,
  onDelta: (delta: Delta) => void,
): Promise<void> {
  let failure: unknown;
  let isWhole = false;
  const parser = createParser({
    onEvent: ({ data }) => {
      try {
        const delta = parseDelta(data);
        isWhole ||= delta === undefined || delta.finish !== undefined;
        if (delta !== undefined) onDelta(delta);
      } catch (error) {
        failure ??= error;
      }
    },
  });
  const decoder = new TextDecoder();
  const reader = stream.getReader();
  // The browser says only "network error" of a connection that breaks.
  const read = () =>
    reader.read().catch((cause) => {
      throw cause instanceof TypeError ? interrupted() : cause;
    });
  for (let part = await read(); !part.done; part = await read()) {
    parser.feed(decoder.decode(part.value, { stream: true }));
    if (failure !== undefined) {
      await reader.cancel().catch(() => undefined);
      throw failure;
    }
  }
  if (!isWhole) throw interrupted();
}

function interrupted(): ConsoleError {
  return new ConsoleError(
    "AnswerInterrupted",
    "The connection to the engine ended before the answer was complete.",
    {
      remedy:
        "Try again: another replica answers, or this one after its restart. If it happens again, the page of the service says why its engine stopped.",
    },
  );
}

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
