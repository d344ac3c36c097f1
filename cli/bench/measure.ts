/** Requests to a service at one level of concurrency, each with its times. */
import type { Agent } from "node:http";
import { z } from "zod";
import type { Mode } from "../../src/api/engine-settings.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { newAgent, readJsonResponse, streamEvents } from "../endpoint/request.ts";
import type { EndpointTarget, ServerEndpoint } from "../endpoint/target.ts";

export interface BenchLoad {
  readonly target: EndpointTarget;
  readonly mode: Mode;
  readonly requests: number;
  readonly promptWords: number;
  readonly maxTokens: number;
  readonly signal: AbortSignal;
}

/** Times in milliseconds. `gapsMs` are the times between two pieces of an answer. */
export interface RequestSample {
  readonly totalMs: number;
  readonly firstMs?: number;
  readonly gapsMs: readonly number[];
  /** Tokens of the answer, as the engine counted them, else its pieces. */
  readonly tokens: number;
}

export interface LevelRun {
  readonly concurrency: number;
  readonly wallMs: number;
  readonly samples: readonly RequestSample[];
  /** Requests that failed, by what they said. */
  readonly failures: ReadonlyMap<string, number>;
}

const eventSchema = z.looseObject({
  choices: z
    .array(z.looseObject({ delta: z.looseObject({ content: z.string().nullish() }).optional() }))
    .optional(),
  usage: z.looseObject({ completion_tokens: z.number() }).nullish(),
});

/** Keeps `concurrency` requests under way until all are sent. Rejects only where `signal` is aborted. */
export async function runLevel(load: BenchLoad, concurrency: number): Promise<LevelRun> {
  const agent = newAgent(load.target);
  const samples: RequestSample[] = [];
  const failures = new Map<string, number>();
  let sent = 0;
  const client = async (): Promise<void> => {
    while (sent < load.requests && !load.signal.aborted) {
      const index = sent++;
      const endpoint = load.target.endpoints[index % load.target.endpoints.length] as ServerEndpoint;
      try {
        samples.push(await oneRequest(load, endpoint, index, agent));
      } catch (error) {
        if (!(error instanceof MetalbridgeError)) throw error;
        failures.set(error.message, (failures.get(error.message) ?? 0) + 1);
      }
    }
  };
  const startedMs = performance.now();
  try {
    await Promise.all(Array.from({ length: Math.min(concurrency, load.requests) }, client));
  } finally {
    agent.destroy();
  }
  return { concurrency, wallMs: performance.now() - startedMs, samples, failures };
}

function oneRequest(
  load: BenchLoad,
  endpoint: ServerEndpoint,
  index: number,
  agent: Agent,
): Promise<RequestSample> {
  const { target, mode, signal } = load;
  const prompt = promptOf(load.promptWords, index);
  const call = (path: string, body: object) => ({
    target,
    endpoint,
    path,
    signal,
    agent,
    body: { model: target.model, ...body },
  });
  switch (mode) {
    case "chat":
      return streamed(
        call("/v1/chat/completions", {
          messages: [{ role: "user", content: prompt }],
          max_tokens: load.maxTokens,
          stream: true,
          stream_options: { include_usage: true },
        }),
      );
    case "embedding":
      return whole(call("/v1/embeddings", { input: prompt }));
    case "rerank":
      return whole(call("/v1/rerank", { query: prompt, documents: [prompt, "something else"] }));
    default:
      return mode satisfies never;
  }
}

async function streamed(call: Parameters<typeof streamEvents>[0]): Promise<RequestSample> {
  const startedMs = performance.now();
  const times: number[] = [];
  let counted: number | undefined;
  for await (const event of streamEvents(call)) {
    const read = eventSchema.safeParse(event);
    if (!read.success) continue;
    const piece = read.data.choices?.[0]?.delta?.content ?? "";
    if (piece !== "") times.push(performance.now());
    counted = read.data.usage?.completion_tokens ?? counted;
  }
  const [firstMs] = times;
  return {
    totalMs: performance.now() - startedMs,
    firstMs: firstMs === undefined ? undefined : firstMs - startedMs,
    gapsMs: times.slice(1).map((time, index) => time - (times[index] ?? time)),
    tokens: counted ?? times.length,
  };
}

async function whole(call: Parameters<typeof readJsonResponse>[0]): Promise<RequestSample> {
  const startedMs = performance.now();
  await readJsonResponse(call);
  return { totalMs: performance.now() - startedMs, gapsMs: [], tokens: 0 };
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
  "harbour",
  "number",
];

/** Differs from the first word on, so that no engine answers from the cache of an earlier prompt. */
function promptOf(words: number, index: number): string {
  const text = Array.from({ length: words }, (_, word) => WORDS[(word * 7 + index) % WORDS.length]);
  return `${index}: ${text.join(" ")}`;
}
