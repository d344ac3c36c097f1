/** Load on a service: one stage with a number of concurrent clients or a rate of requests, and the times of each request. */
import type { Agent } from "node:http";
import { setTimeout } from "node:timers/promises";
import { z } from "zod";
import type { Mode } from "../../src/api/engine-settings.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { type EndpointCall, newAgent, readJsonResponse } from "../endpoint/request.ts";
import type { EndpointTarget, ServerEndpoint } from "../endpoint/target.ts";
import { freshPrompt, type StreamSample, timedStream } from "./stream.ts";

export interface BenchLoad {
  readonly target: EndpointTarget;
  readonly mode: Mode;
  /** Limits of a stage; the first that is reached ends it. */
  readonly requests: number;
  readonly durationMs: number;
  readonly promptWords: number;
  readonly maxTokens: number;
  /** Every answer has the maximum length. */
  readonly ignoreEos: boolean;
  readonly signal: AbortSignal;
}

/** Concurrent clients that each wait for their answer, or arrivals per second that do not wait (a Poisson process). */
export type Stage = { readonly concurrency: number } | { readonly ratePerSecond: number };

export interface StageRun {
  readonly stage: Stage;
  readonly wallMs: number;
  readonly samples: readonly StreamSample[];
  /** Requests that failed, by their messages. */
  readonly failures: ReadonlyMap<string, number>;
}

/** Ends once every request that was sent is answered. Rejects only if `signal` is aborted. */
export async function runStage(load: BenchLoad, stage: Stage): Promise<StageRun> {
  const agent = newAgent(load.target);
  const samples: StreamSample[] = [];
  const failures = new Map<string, number>();
  const startedMs = performance.now();
  let sent = 0;
  const isOver = () =>
    sent >= load.requests || performance.now() - startedMs >= load.durationMs || load.signal.aborted;
  const send = async (): Promise<void> => {
    const { endpoints } = load.target;
    const endpoint = endpoints[sent++ % endpoints.length] as ServerEndpoint;
    try {
      samples.push(await oneRequest(load, endpoint, agent));
    } catch (error) {
      if (!(error instanceof MetalbridgeError)) throw error;
      failures.set(error.message, (failures.get(error.message) ?? 0) + 1);
    }
  };
  try {
    if ("concurrency" in stage) {
      const client = async () => {
        while (!isOver()) await send();
      };
      await Promise.all(Array.from({ length: Math.min(stage.concurrency, load.requests) }, client));
    } else await arrivals(stage.ratePerSecond, { send, isOver, signal: load.signal });
  } finally {
    agent.destroy();
  }
  return { stage, wallMs: performance.now() - startedMs, samples, failures };
}

interface Arrivals {
  readonly send: () => Promise<void>;
  readonly isOver: () => boolean;
  readonly signal: AbortSignal;
}

async function arrivals(ratePerSecond: number, { send, isOver, signal }: Arrivals): Promise<void> {
  const sent: Promise<void>[] = [];
  let dueMs = performance.now();
  while (!isOver()) {
    const answered = send();
    // After an interrupt, the error of the timer is enough.
    answered.catch(() => undefined);
    sent.push(answered);
    if (isOver()) break;
    // The schedule does not slip if a timer is late.
    dueMs += (-Math.log(1 - Math.random()) * 1_000) / ratePerSecond;
    await setTimeout(Math.max(0, dueMs - performance.now()), undefined, { signal });
  }
  await Promise.all(sent);
}

function oneRequest(load: BenchLoad, endpoint: ServerEndpoint, agent: Agent): Promise<StreamSample> {
  const { target, mode, signal } = load;
  const prompt = freshPrompt(load.promptWords);
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
      return timedStream(
        call("/v1/chat/completions", {
          messages: [{ role: "user", content: prompt }],
          max_tokens: load.maxTokens,
          ignore_eos: load.ignoreEos || undefined,
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

const usageSchema = z
  .looseObject({ usage: z.looseObject({ prompt_tokens: z.number() }).optional() })
  .catch({});

async function whole(call: EndpointCall): Promise<StreamSample> {
  const startedMs = performance.now();
  const { usage } = usageSchema.parse(await readJsonResponse(call));
  const totalMs = performance.now() - startedMs;
  return { totalMs, gapsMs: [], isCounted: true, inputTokens: usage?.prompt_tokens ?? 0, tokens: 0 };
}
