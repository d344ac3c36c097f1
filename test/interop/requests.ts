/** What clients, probes and Prometheus ask of an engine. */
import { setTimeout as after } from "node:timers/promises";
import type { InteropFacts, Stream } from "../../controller/pods/workload/fixtures/interop-facts.ts";
import { KEY, type PodProcess } from "./pod-process.ts";

const POLL_MS = 100;
const START_MS = 300_000;

export interface Target {
  readonly url: string;
  /** Name that clients call the model by. */
  readonly model: string;
  /** Tokens of a stream that is to be in flight for long. */
  readonly longTokens: number;
}

/** Every different answer until the first 200. Throws with the log if it ends before. */
export async function healthUntilReady(pod: PodProcess, url: string): Promise<InteropFacts["health"]> {
  const seen: (number | "refused")[] = [];
  const signal = AbortSignal.timeout(START_MS);
  while (!signal.aborted) {
    if (pod.hasEnded()) throw new Error(`the engine ended:\n${pod.log().slice(-4_000)}`);
    const answer = await fetch(url, { headers: ALONE }).then(
      ({ status }) => status,
      () => "refused" as const,
    );
    if (seen.at(-1) !== answer) seen.push(answer);
    if (answer === 200) return seen;
    await after(POLL_MS);
  }
  throw new Error(`the engine was not ready in time:\n${pod.log().slice(-4_000)}`);
}

export async function statusOf(url: string, body?: object): Promise<number> {
  const response = await fetch(url, body === undefined ? { headers: ALONE } : post(body, ALONE));
  await response.body?.cancel();
  return response.status;
}

/** Status of one short chat with the key. */
export async function chat({ url }: Target, model: string): Promise<number> {
  const body = { model, messages: [{ role: "user", content: "hi" }], max_tokens: 4 };
  const response = await fetch(`${url}/v1/chat/completions`, post(body, WITH_KEY));
  await response.text();
  return response.status;
}

export async function models({ url }: Target): Promise<string[]> {
  const response = await fetch(`${url}/v1/models`, { headers: WITH_KEY });
  const { data } = (await response.json()) as { data: { id: string }[] };
  return data.map(({ id }) => id);
}

export interface LongStream {
  readonly ended: Promise<Stream>;
  readonly abort: () => void;
}

/** Resolves with its first bytes. */
export async function streamed({ url, model, longTokens }: Target, tokens = longTokens): Promise<LongStream> {
  const client = new AbortController();
  const body = { model, prompt: "a", max_tokens: tokens, ignore_eos: true, stream: true };
  const init = { ...post(body, WITH_KEY), signal: client.signal };
  const response = await fetch(`${url}/v1/completions`, init);
  if (response.status !== 200) throw new Error(`a stream is answered with ${response.status}`);
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  const first = await reader?.read();
  return { ended: readToEnd(reader, first?.value ?? ""), abort: () => client.abort() };
}

async function readToEnd(
  reader: ReadableStreamDefaultReader<string> | undefined,
  first: string,
): Promise<Stream> {
  let text = first;
  try {
    for (let part = await reader?.read(); part?.done === false; part = await reader?.read())
      text = `${text}${part.value}`.slice(-4_000);
  } catch {
    return "cut";
  }
  if (/"error":/.test(text)) return "error";
  return text.trimEnd().endsWith("data: [DONE]") ? "complete" : "cut";
}

/** Sums by name. */
export async function readGauges({ url }: Target, path: string): Promise<ReadonlyMap<string, number>> {
  const response = await fetch(`${url}${path}`, { headers: WITH_KEY });
  const lines = (await response.text()).split("\n");
  const gauges = new Map<string, number>();
  for (const line of lines) {
    const [, gauge] = /^# TYPE (\S+) gauge/.exec(line) ?? [];
    // Each counter of Python's library has a gauge with the time of its creation.
    if (gauge?.includes(":") && !gauge.endsWith("_created")) gauges.set(gauge, 0);
    const [, name = "", value] = /^([^{ ]+)(?:\{.*\})? (\S+)$/.exec(line) ?? [];
    const sum = gauges.get(name);
    if (sum !== undefined) gauges.set(name, sum + Number(value));
  }
  return gauges;
}

/** Engines close connections that are idle for seconds, also while the next request is on its way. */
const ALONE = { connection: "close" };
const WITH_KEY = { ...ALONE, authorization: `Bearer ${KEY}` };

function post(body: object, headers: Readonly<Record<string, string>>): RequestInit {
  return {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  };
}
