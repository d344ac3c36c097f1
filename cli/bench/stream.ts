/** One streamed request with a fresh prompt, with its times and the token counts of the server. */
import { randomInt } from "node:crypto";
import { z } from "zod";
import { type EndpointCall, streamEvents } from "../endpoint/request.ts";

/** Times in milliseconds. `gapsMs` are the times between two pieces of an answer. */
export interface StreamSample {
  readonly totalMs: number;
  /** Time to the first non-empty piece. */
  readonly firstMs?: number;
  readonly gapsMs: readonly number[];
  /** Token counts of the server, and false without them: then each piece counts as one token of the answer. */
  readonly isCounted: boolean;
  readonly inputTokens: number;
  readonly tokens: number;
  /** Speeds that the engine measured itself, in tokens per second. */
  readonly promptPerSecond?: number;
  readonly generatedPerSecond?: number;
}

const text = z.string().nullish();

const eventSchema = z.looseObject({
  choices: z
    .array(
      z.looseObject({
        text,
        // A reasoning model generates its thoughts like any other token.
        delta: z.looseObject({ content: text, reasoning_content: text, reasoning: text }).nullish(),
      }),
    )
    .optional(),
  usage: z.looseObject({ prompt_tokens: z.number(), completion_tokens: z.number().default(0) }).nullish(),
  // llama-server adds them to its last event.
  timings: z
    .looseObject({ prompt_per_second: z.number(), predicted_per_second: z.number(), predicted_n: z.number() })
    .nullish()
    .catch(undefined),
});

/** Throws NoAnswer, or the reason of the aborted signal. */
export async function timedStream(call: EndpointCall): Promise<StreamSample> {
  const startedMs = performance.now();
  const times: number[] = [];
  let last: z.output<typeof eventSchema> = {};
  for await (const event of streamEvents(call)) {
    const read = eventSchema.safeParse(event);
    if (!read.success) continue;
    const { choices: [choice] = [], usage, timings } = read.data;
    const { content, reasoning_content, reasoning } = choice?.delta ?? {};
    if (choice?.text || content || reasoning_content || reasoning) times.push(performance.now());
    last = { usage: usage ?? last.usage, timings: timings ?? last.timings };
  }
  const [firstMs] = times;
  const { usage, timings } = last;
  return {
    totalMs: performance.now() - startedMs,
    firstMs: firstMs === undefined ? undefined : firstMs - startedMs,
    gapsMs: times.slice(1).map((time, index) => time - (times[index] ?? time)),
    isCounted: usage !== undefined && usage !== null,
    inputTokens: usage?.prompt_tokens ?? 0,
    tokens: usage?.completion_tokens ?? times.length,
    promptPerSecond: timings?.prompt_per_second,
    generatedPerSecond: timings && timings.predicted_n > 1 ? timings.predicted_per_second : undefined,
  };
}

const WORDS = [
  "river",
  "stone",
  "light",
  "winter",
  "engine",
  "paper",
  "garden",
  "signal",
  "harbor",
  "number",
];

/** Differs from the first word on, in every request of every run: an engine would answer a known prompt from its cache. */
export function freshPrompt(words: number): string {
  const text = Array.from({ length: words }, () => WORDS[randomInt(WORDS.length)]);
  return `${randomInt(1_000_000)}: ${text.join(" ")}`;
}
