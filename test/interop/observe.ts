/** Tries the container of a pod on a real engine, point by point. */
import { setTimeout as after } from "node:timers/promises";
import { STOP_SECONDS, WITHDRAWAL_SECONDS } from "../../controller/pods/workload/drain.ts";
import {
  SERVED,
  servedContainer,
  type TriedRuntime,
} from "../../controller/pods/workload/fixtures/interop-cases.ts";
import type { End, InteropFacts } from "../../controller/pods/workload/fixtures/interop-facts.ts";
import type { PodRuntime } from "../../src/engines/contract/pod.ts";
import { freePort } from "../bed/ports.ts";
import { endWithin, type Place, type PodProcess, startContainer, startPreStop } from "./pod-process.ts";
import {
  chat,
  healthUntilReady,
  type LongStream,
  models,
  readGauges,
  statusOf,
  streamed,
  type Target,
} from "./requests.ts";

export interface Subject {
  readonly runtime: TriedRuntime;
  readonly pod: PodRuntime;
  readonly place: Place;
  /** Tokens of the longest stream that its context has room for. */
  readonly longTokens: number;
  /** Paths that are asked without the key; those of POST compute. */
  readonly paths: readonly string[];
  /** A line of its log while it loads; absent: a tiny model is loaded before a signal arrives. */
  readonly loading?: RegExp;
  /** Arguments that no engine can start with, by case. */
  readonly failures: Readonly<Record<string, (args: readonly string[]) => readonly string[]>>;
  readonly note: (text: string) => void;
}

/** Longer than the two readings of an idle engine. */
const BUSY_MS = (WITHDRAWAL_SECONDS + 4) * 1_000;
const FIRST_TERM_MS = 3_000;
const SAMPLE_TOKENS = 500;
/** Longer than a signal takes to be handled, shorter than the time that vLLM has to finish. */
const TERM_STREAM_SECONDS = 4;
const COMPUTE = { model: SERVED, prompt: "a", messages: [{ role: "user", content: "a" }], max_tokens: 1 };

type Observed = Omit<InteropFacts, "version" | "program" | "flags" | "refused">;

export async function observe(subject: Subject): Promise<Observed> {
  const serving = await observeServing(subject);
  subject.note("TERM while idle");
  const idle = await withReady(subject, async ({ engine }) => {
    engine.child.kill("SIGTERM");
    return endOf(engine);
  });
  const loading = await termWhileLoading(subject);
  const failures: Record<string, End> = {};
  for (const name of Object.keys(subject.failures)) failures[name] = await failure(subject, name);
  const { streaming, ...rest } = serving;
  const term = loading === undefined ? { idle, streaming } : { idle, streaming, loading };
  return { ...rest, term, failures };
}

async function withReady<T>(
  subject: Subject,
  use: (served: { engine: PodProcess; target: Target; health: InteropFacts["health"] }) => Promise<T>,
): Promise<T> {
  const port = await freePort();
  await using engine = startContainer(servedContainer(subject.runtime, port), subject.place);
  const url = `http://127.0.0.1:${port}`;
  const health = await healthUntilReady(engine, `${url}${subject.pod.healthPath}`);
  const target = { url, model: SERVED, longTokens: subject.longTokens };
  try {
    return await use({ engine, target, health });
  } catch (error) {
    throw new Error(`${error}; the engine's log ends with:\n${engine.log().slice(-4_000)}`, { cause: error });
  }
}

async function observeServing(subject: Subject) {
  const { pod, note } = subject;
  note("start, requests, metrics");
  return withReady(subject, async ({ engine, target, health }) => {
    const ipv6 = target.url.replace("127.0.0.1", "[::1]");
    const reached = await statusOf(`${ipv6}${pod.healthPath}`).catch(() => 0);
    const facts = {
      health,
      answersOn: ["127.0.0.1", ...(reached === 200 ? ["::1"] : [])],
      models: await models(target),
      chat: await chat(target, SERVED),
      unknownModel: await chat(target, "other"),
      stream: await (await streamed(target, 3)).ended,
      gauges: [...(await readGauges(target, pod.metrics?.path ?? "")).keys()].sort(),
      withoutKey: await statuses(target, subject.paths),
      inFlight: await inFlight(target, pod),
    };
    note("preStop");
    const preStop = await observePreStop(subject, engine, target);
    note("TERM with a stream in flight");
    return { ...facts, preStop, streaming: await termWithStream(subject, engine, target) };
  });
}

async function statuses({ url }: Target, paths: readonly string[]): Promise<Record<string, number>> {
  const found: Record<string, number> = {};
  for (const path of paths) {
    const [method = "", rest] = path.split(" ");
    found[path] = await statusOf(`${url}${rest ?? method}`, rest === undefined ? undefined : COMPUTE);
  }
  return found;
}

async function inFlight(target: Target, pod: PodRuntime): Promise<InteropFacts["inFlight"]> {
  const sum = async () => {
    const gauges = await readGauges(target, pod.metrics?.path ?? "");
    return (pod.metrics?.inFlight ?? []).reduce((total, name) => total + (gauges.get(name) ?? Number.NaN), 0);
  };
  const idle = await sum();
  const stream = await streamed(target);
  // Engines write their gauges between steps; the drain reads them twice, a second apart.
  const untilMs = performance.now() + 1_000;
  let busy = await sum();
  while (busy === 0 && performance.now() < untilMs) busy = await sum();
  await aborted(stream);
  return { idle, busy };
}

async function aborted(stream: LongStream): Promise<void> {
  stream.abort();
  await stream.ended;
}

async function observePreStop(
  { runtime, place }: Subject,
  engine: PodProcess,
  target: Target,
): Promise<InteropFacts["preStop"]> {
  const port = Number(new URL(target.url).port);
  let isBusy = true;
  // Two, so that one is in flight while the other one ends.
  const clients = [1, 2].map(async () => {
    while (isBusy) {
      const stream = await streamed(target);
      await Promise.race([stream.ended, after(BUSY_MS)]);
      await aborted(stream);
    }
  });
  const hook = startPreStop(servedContainer(runtime, port), place, engine);
  await after(BUSY_MS);
  const waitsWhileBusy = !hook.hasEnded();
  isBusy = false;
  await Promise.all(clients);
  return { waitsWhileBusy, exitCode: await hook.ended };
}

async function termWithStream(
  { pod, longTokens }: Subject,
  engine: PodProcess,
  target: Target,
): Promise<InteropFacts["term"]["streaming"]> {
  const tokens = Math.round((await tokensPerSecond(target)) * TERM_STREAM_SECONDS);
  const stream = await streamed(target, Math.min(tokens, longTokens));
  engine.child.kill("SIGTERM");
  // An answer that was complete before the engine has heard the signal would show nothing.
  const before = await Promise.race([stream.ended, portClosed(target)]);
  if (before === "complete") throw new Error("the stream ended before the engine handled TERM");
  const first = await endWithin(engine, pod.endsAtSecondTerm ? FIRST_TERM_MS : STOP_SECONDS * 1_000);
  if (first === undefined) engine.child.kill("SIGTERM");
  const end = first ?? (await endOf(engine));
  return { ...end, stream: await stream.ended, endsAtFirst: first !== undefined };
}

/** On a busy machine a tenth of what an idle one does. */
async function tokensPerSecond(target: Target): Promise<number> {
  const startedMs = performance.now();
  await (await streamed(target, SAMPLE_TOKENS)).ended;
  return (SAMPLE_TOKENS * 1_000) / (performance.now() - startedMs);
}

/** Undefined once nothing listens, or after the time that engines get for their first TERM. */
async function portClosed({ url }: Target): Promise<undefined> {
  const signal = AbortSignal.timeout(FIRST_TERM_MS);
  while (!signal.aborted) {
    const isOpen = await statusOf(`${url}/health`).then(
      () => true,
      () => false,
    );
    if (!isOpen) return;
    await after(20);
  }
}

/** Within the time that a kubelet waits for. */
async function endOf(engine: PodProcess): Promise<End> {
  const end = await endWithin(engine, STOP_SECONDS * 1_000);
  return end ?? { exitCode: null, signal: null, lastLine: `it did not end in ${STOP_SECONDS} seconds` };
}

async function termWhileLoading(subject: Subject): Promise<End | undefined> {
  const { runtime, place, loading, note } = subject;
  if (loading === undefined) return undefined;
  note("TERM while loading");
  await using engine = startContainer(servedContainer(runtime, await freePort()), place);
  await engine.until(loading);
  engine.child.kill("SIGTERM");
  return await endOf(engine);
}

async function failure(subject: Subject, name: string): Promise<End> {
  subject.note(`start with ${name}`);
  const container = servedContainer(subject.runtime, await freePort());
  const args = subject.failures[name]?.(container.args ?? []) ?? [];
  await using engine = startContainer({ ...container, args }, subject.place);
  return await engine.ended;
}
