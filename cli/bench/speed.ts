/** The speed of a single request: what a benchmark records of a model on a machine. */
import { z } from "zod";
import type { BenchmarkPlan, Measurement } from "../../src/api/benchmark.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { rateOf } from "../../src/capacity/benchmark/measurement.ts";
import { isRejected, newAgent, readJsonResponse } from "../endpoint/request.ts";
import type { EndpointTarget } from "../endpoint/target.ts";
import { freshPrompt, type StreamSample, timedStream } from "./stream.ts";

export type Speed = Pick<
  Measurement,
  "generation" | "generationAt4096" | "prompt512" | "prompt4096" | "timeToFirstTokenSeconds"
>;

export interface SpeedRequest {
  /** Only its first endpoint is measured. */
  readonly target: EndpointTarget;
  readonly plan: BenchmarkPlan;
  readonly signal: AbortSignal;
}

const SHORT = 512;
const LONG = 4_096;
/** Words of the prompt from which the number of tokens per word is derived. */
const SAMPLE_WORDS = 20;

/** Throws BenchmarkFailed and NoAnswer, or the reason of the aborted signal. */
export async function measureSpeed({ target, plan, signal }: SpeedRequest): Promise<Speed> {
  const [endpoint] = target.endpoints;
  if (endpoint === undefined) throw new Error("a target without an endpoint");
  const agent = newAgent(target);
  const ask = (words: number, tokens: number) =>
    timedStream({
      target,
      endpoint,
      signal,
      agent,
      path: "/v1/completions",
      body: {
        model: target.model,
        prompt: freshPrompt(words),
        max_tokens: tokens,
        // Every run generates the same number of tokens, and no run starts from the prompt of another.
        ignore_eos: true,
        cache_prompt: false,
        stream: true,
        stream_options: { include_usage: true },
      },
    });
  try {
    const { isCounted, inputTokens: baseTokens } = await ask(0, 1);
    if (!isCounted) {
      const message = "the engine reports no token counts (stream_options.include_usage)";
      throw new MetalbridgeError("BenchmarkFailed", message);
    }
    const tokensPerWord = Math.max(1, (await ask(SAMPLE_WORDS, 1)).inputTokens - baseTokens) / SAMPLE_WORDS;
    const wordsFor = (tokens: number) => Math.max(1, Math.round((tokens - baseTokens) / tokensPerWord));
    for (let done = 0; done < plan.warmups; done += 1) await ask(0, plan.tokens);
    const runs = await measuredRuns(plan, {
      generate: () => ask(0, plan.tokens),
      prompt: () => ask(wordsFor(SHORT), 1),
      deep: () => ask(wordsFor(LONG), plan.tokens),
    });
    return speedOf(runs);
  } finally {
    agent.destroy();
  }
}

interface Run {
  readonly generate: StreamSample;
  /** Absent if the context of the engine is too small. */
  readonly prompt: StreamSample | undefined;
  readonly deep: StreamSample | undefined;
}

type Requests = { readonly [Key in keyof Run]: () => Promise<StreamSample> };

async function measuredRuns(
  plan: BenchmarkPlan,
  { generate, prompt, deep }: Requests,
): Promise<readonly Run[]> {
  const startedMs = performance.now();
  const isOver = () =>
    plan.minSeconds !== undefined && performance.now() - startedMs >= plan.minSeconds * 1_000;
  const runs: Run[] = [];
  while (runs.length < plan.runs && (runs.length === 0 || !isOver())) {
    // A prompt that is rejected once is rejected again.
    const [first] = runs;
    const isFirst = first === undefined;
    runs.push({
      generate: await generate(),
      prompt: isFirst || first.prompt ? await unlessRejected(prompt()) : undefined,
      deep: isFirst || first.deep ? await unlessRejected(deep()) : undefined,
    });
  }
  return runs;
}

async function unlessRejected(request: Promise<StreamSample>): Promise<StreamSample | undefined> {
  try {
    return await request;
  } catch (error) {
    if (isRejected(error)) return undefined;
    throw error;
  }
}

/** Throws BenchmarkFailed if the engine generated no tokens. */
export function speedOf(runs: readonly Run[]): Speed {
  const deep = runs.flatMap((run) => run.deep ?? []);
  const rate = (samples: readonly StreamSample[], speed: (sample: StreamSample) => number | undefined) =>
    rateOf(samples.map(speed).filter((one) => one !== undefined));
  const generated = runs.map((run) => run.generate);
  const prompts = runs.flatMap((run) => run.prompt ?? []);
  const generation = rate(generated, generationSpeed);
  if (generation === undefined)
    throw new MetalbridgeError(
      "BenchmarkFailed",
      "the engine generated fewer than two tokens for each prompt",
    );
  const first = rateOf(prompts.map(({ firstMs, totalMs }) => (firstMs ?? totalMs) / 1_000));
  return {
    generation,
    generationAt4096: rate(deep, generationSpeed),
    prompt512: rate(prompts, promptSpeed),
    prompt4096: rate(deep, promptSpeed),
    timeToFirstTokenSeconds: first?.median,
  };
}

/** The engine's own figure, else the tokens after the first one by the time that they took. */
function generationSpeed({ generatedPerSecond, tokens, gapsMs }: StreamSample): number | undefined {
  const ms = gapsMs.reduce((sum, gap) => sum + gap, 0);
  return generatedPerSecond ?? (tokens > 1 && ms > 0 ? ((tokens - 1) * 1_000) / ms : undefined);
}

function promptSpeed({ promptPerSecond, inputTokens, firstMs, totalMs }: StreamSample): number {
  return promptPerSecond ?? (inputTokens * 1_000) / (firstMs ?? totalMs);
}

const propsSchema = z.looseObject({ build_info: z.string().min(1) });
const versionSchema = z.looseObject({ version: z.string().min(1) });

/** Version that the engine reports: llama-server at /props, vLLM and others at /version. Undefined without one. */
export async function engineBuild(target: EndpointTarget, signal: AbortSignal): Promise<string | undefined> {
  const [endpoint] = target.endpoints;
  if (endpoint === undefined) return undefined;
  const read = (path: string) =>
    readJsonResponse({ target, endpoint, path, signal }).catch((error: unknown) => {
      if (error instanceof MetalbridgeError) return undefined;
      throw error;
    });
  const { build_info } = propsSchema.safeParse(await read("/props")).data ?? {};
  return build_info ?? versionSchema.safeParse(await read("/version")).data?.version;
}
