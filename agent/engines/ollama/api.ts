/** The part of Ollama's API that the agent uses: each call is bounded, each answer is checked. */
import { type IncomingMessage, request } from "node:http";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { isOwnModel } from "../../../src/engines/contract/shared-daemon.ts";
import { ollamaLoadFailure } from "../../../src/engines/ollama/exit.ts";
import { isLookupFailure, LOOKUP_TRIES } from "../../../src/engines/ollama/lookup.ts";
import { parseJson } from "../../../src/util/parse-json.ts";
import type { RunSerialized } from "../../../src/util/serializer.ts";
import { truncate } from "../../../src/util/text.ts";
import type { DaemonApi } from "../../instances/daemon/spec.ts";
import {
  type Address,
  describeNetworkError,
  type EngineReply,
  type EngineRequest,
  sendEngineRequest,
} from "../driver/http.ts";
import { deleteModel } from "./leftovers.ts";

const SHORT_MS = 2_000;
/** The replica's own deadline ends a load; this only bounds a daemon that never answers. */
const LOAD_MS = 3_600_000;
/** Longer than the 10 s that Ollama waits for a hung request: without the gate no one cuts the requests of a model. */
const UNLOAD_MS = 12_000;
const POLL_MS = 50;
const MAX_LINE = 1 << 20;

const psSchema = z.object({
  models: z.array(
    z.object({
      name: z.string(),
      size: z.number().nonnegative(),
      context_length: z.int().positive().optional(),
    }),
  ),
});
export type RunningModel = z.output<typeof psSchema>["models"][number];

/** Reads `/api/ps`: the models in memory, including those that are still being loaded. */
export async function runningModels(
  address: Address,
  timeoutMs = SHORT_MS,
): Promise<readonly RunningModel[] | { readonly failed: string }> {
  const answer = await sendEngineRequest({ ...address, path: "/api/ps", timeoutMs });
  if ("failed" in answer) return answer;
  const parsed = psSchema.safeParse(parseJson(answer.body));
  if (answer.status === 200 && parsed.success) return parsed.data.models;
  return { failed: `HTTP ${answer.status} from /api/ps: ${truncate(answer.body.trim(), 200)}` };
}

/** Undefined if no Ollama answers there. */
export async function readVersion(address: Address): Promise<string | undefined> {
  const answer = await sendEngineRequest({ ...address, path: "/api/version", timeoutMs: SHORT_MS });
  if ("failed" in answer) return undefined;
  return z.object({ version: z.string() }).safeParse(parseJson(answer.body)).data?.version;
}

/**
 * `mark`: checksum of a blob that only servers of this agent have; absent: any server will do. `inTurn`: also serializes
 * the creation of models, because a deletion removes every blob that no complete model refers to.
 */
export function ollamaApi(address: Address, inTurn: RunSerialized, mark?: string): DaemonApi {
  let isOurs = mark === undefined;
  const running = async (): Promise<readonly RunningModel[]> => {
    // The agent's server may have lost the port to another Ollama, and be about to exit.
    isOurs ||= await hasBlob(address, mark ?? "");
    if (!isOurs) throw new Error(`another Ollama answers on port ${address.port}`);
    const models = await runningModels(address);
    if ("failed" in models) throw new Error(models.failed);
    return models;
  };
  return {
    loaded: async () => (await running()).map(({ name, size }) => ({ model: name, bytes: size })),
    load: (model, signal) => keepLoaded(address, model, { signal }),
    unload: async (model) => {
      const body = { model, keep_alive: 0 };
      // Fails fast if the server is hung: then it does not even list its models.
      await running();
      const answer = await sendEngineRequest({
        ...address,
        path: "/api/generate",
        body,
        timeoutMs: UNLOAD_MS,
      });
      if ("failed" in answer) throw new Error(answer.failed);
      const until = performance.now() + UNLOAD_MS;
      // The server answers before it has unloaded the model, which it does after the model's last request.
      while ((await running()).some(({ name }) => name === model)) {
        if (performance.now() > until) throw new Error(`${model} is still loaded`);
        await sleep(POLL_MS);
      }
      // A failure is ignored: the model is out of memory, and the next sweep removes it from disk.
      if (isOwnModel(model)) await inTurn(() => deleteModel(address, model)).catch(() => undefined);
    },
  };
}

export async function hasBlob(address: Address, sha256: string, signal?: AbortSignal): Promise<boolean> {
  const path = `/api/blobs/sha256:${sha256}`;
  const answer = await sendEngineRequest({ ...address, path, method: "HEAD", timeoutMs: SHORT_MS, signal });
  return "status" in answer && answer.status === 200;
}

/** Sends a request that names a model, again if Ollama failed to look the model up. */
export async function askOfModel(request: EngineRequest): Promise<EngineReply> {
  for (let left = LOOKUP_TRIES; ; left -= 1) {
    const answer = await sendEngineRequest(request);
    if (left <= 1 || "failed" in answer || !isLookupFailure(answer.status, answer.body)) return answer;
  }
}

/** Loads the model, or renews its keep-alive, which any client can shorten. An embedding model rejects /api/generate. */
export async function keepLoaded(
  address: Address,
  model: string,
  { timeoutMs = LOAD_MS, signal }: { readonly timeoutMs?: number; readonly signal?: AbortSignal },
): Promise<void> {
  for (const path of ["/api/generate", "/api/embed"]) {
    const body = { model, keep_alive: -1 };
    const answer = await askOfModel({ ...address, path, body, timeoutMs, signal });
    if ("failed" in answer) throw new Error(answer.failed);
    if (answer.status === 200) return;
    const reason = errorIn(answer.body);
    if (answer.status === 400 && reason.includes("does not support generate")) continue;
    // A server that is busy or stopping says nothing about the model.
    if (answer.status === 503 || answer.status === 499) throw new Error(reason);
    const { code, message } = ollamaLoadFailure(reason);
    throw new MetalbridgeError(code, message);
  }
}

const lineSchema = z.object({
  status: z.union([z.string(), z.int()]).optional(),
  error: z.string().optional(),
  digest: z.string().optional(),
  total: z.number().nonnegative().optional(),
  completed: z.number().nonnegative().optional(),
});
export type ProgressLine = z.output<typeof lineSchema>;

/** An error that the daemon reported in its answer; the daemon keeps running. */
export class OllamaRejection extends Error {}

/**
 * Calls /api/pull or /api/create, which answer with one JSON object per line. The status is 200 before the work has begun, so
 * only a line `success` means success. `onLine` returns whether the line was progress: silence is limited, the total time is not.
 */
export async function streamOllama(
  address: Address,
  path: string,
  body: object,
  options: {
    readonly silenceMs: (line: ProgressLine | undefined) => number;
    readonly signal: AbortSignal;
    readonly onLine?: (line: ProgressLine) => boolean;
  },
): Promise<void> {
  const stalled = new AbortController();
  const signal = AbortSignal.any([options.signal, stalled.signal]);
  const startTimer = (line?: ProgressLine): NodeJS.Timeout => {
    const limitMs = options.silenceMs(line);
    const error = new StreamStalled(`no progress for ${limitMs / 1_000} s`);
    return setTimeout(() => stalled.abort(error), limitMs);
  };
  let timer = startTimer();
  try {
    let isDone = false;
    for await (const text of readResponseLines(await post(address, path, body, signal))) {
      const line = lineSchema.safeParse(parseJson(text));
      if (!line.success) continue;
      if (line.data.error !== undefined) throw new OllamaRejection(line.data.error);
      isDone = line.data.status === "success";
      if (options.onLine?.(line.data) === false) continue;
      clearTimeout(timer);
      timer = startTimer(line.data);
    }
    if (!isDone) throw new Error(`${path} ended without success`);
  } catch (error) {
    options.signal.throwIfAborted();
    stalled.signal.throwIfAborted();
    if (error instanceof OllamaRejection || !(error instanceof Error)) throw error;
    throw new Error(describeNetworkError(error, 0), { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

export class StreamStalled extends Error {}

function post(
  { host, port }: Address,
  path: string,
  json: object,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const body = JSON.stringify(json);
  const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
  return new Promise((resolve, reject) => {
    const call = request({ host, port, path, method: "POST", agent: false, signal, headers }, resolve);
    call.once("error", reject);
    call.end(body);
  });
}

/** The last line may lack its line end. Throws if the connection breaks. */
export async function* readResponseLines(response: Readable): AsyncIterable<string> {
  let partialLine = "";
  for await (const chunk of response.setEncoding("utf8") as AsyncIterable<string>) {
    const lines = (partialLine + chunk).split("\n");
    partialLine = lines.pop() ?? "";
    yield* lines;
    if (partialLine.length > MAX_LINE) throw new Error("a line of the answer is too long");
  }
  yield partialLine;
}

export function errorIn(body: string): string {
  const parsed = z.object({ error: z.string() }).safeParse(parseJson(body));
  return parsed.success ? parsed.data.error : truncate(body.trim(), 300);
}
