/** The events of a streamed chat completion. */
import { createParser } from "eventsource-parser";
import { ConsoleError, gatewayError } from "../../../api/request.ts";
import { texts } from "../../../texts/playground.ts";

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
  return new ConsoleError("AnswerInterrupted", texts.interrupted, { remedy: texts.interruptedRemedy });
}
