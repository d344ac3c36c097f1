/** The part of oMLX's API that the agent uses: each call is bounded, each answer is checked. */
import { readFile, realpath } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { omlxLoadFailure } from "../../../src/engines/omlx/exit.ts";
import type { OmlxSettings } from "../../../src/engines/omlx/settings.ts";
import { parseJson } from "../../../src/util/parse-json.ts";
import { truncate } from "../../../src/util/text.ts";
import type { DaemonApi } from "../../instances/daemon/spec.ts";
import type { InstanceTarget } from "../../instances/instance.ts";
import { type Address, type EngineReply, type EngineRequest, sendEngineRequest } from "../driver/http.ts";

export type Server = Address & Pick<InstanceTarget, "keyFile">;

const SHORT_MS = 2_000;
const UNLOAD_MS = 10_000;
const POLL_MS = 50;
const GB = 1e9;
/** A load may take this many times as long as the server has measured per GB. */
const ESTIMATE_FACTOR = 5;
/** Time for a load in addition to the time for its size. */
const LOAD_MS = 30_000;
/** Used if the server has measured nothing. Below the agent's start timeout, so that the model fails and not the server. */
const LOAD_PER_GB_MS = 2_000;

const statusSchema = z.object({
  load_seconds_per_gb_estimate: z.number().positive().nullish().catch(undefined),
  models: z.array(
    z.object({
      id: z.string(),
      model_path: z.string().nullish(),
      loaded: z.boolean(),
      is_loading: z.boolean().default(false),
      estimated_size: z.number().nonnegative().nullish(),
      actual_size: z.number().nonnegative().nullish(),
      max_context_window: z.int().positive().nullish().catch(undefined),
    }),
  ),
});
export type ServerStatus = z.output<typeof statusSchema>;

/** Reads `/v1/models/status`: every model that the server could load, and which of them are in memory. */
export async function readStatus(
  server: Server,
  timeoutMs = SHORT_MS,
): Promise<ServerStatus | { readonly failed: string }> {
  const answer = await callOmlx(server, { path: "/v1/models/status", timeoutMs });
  if ("failed" in answer) return answer;
  const parsed = statusSchema.safeParse(parseJson(answer.body));
  if (answer.status === 200 && parsed.success) return parsed.data;
  return { failed: `HTTP ${answer.status} from /v1/models/status: ${errorIn(answer.body)}` };
}

/** Undefined if oMLX does not answer there: other programs use its port too. "loading": it serves once its pinned models are loaded. */
export async function identifyOmlx(server: Address): Promise<"ready" | "loading" | undefined> {
  const answer = await sendEngineRequest({ ...server, path: "/health", timeoutMs: SHORT_MS });
  if ("failed" in answer) return undefined;
  const parsed = z
    .object({ status: z.string(), engine_pool: z.object({}).optional() })
    .safeParse(parseJson(answer.body));
  if (!parsed.success) return undefined;
  if (answer.status === 200 && parsed.data.engine_pool !== undefined) return "ready";
  return answer.status === 503 && parsed.data.status === "loading" ? "loading" : undefined;
}

/** Undefined if the server does not report it. */
export async function readVersion(server: Address): Promise<string | undefined> {
  const answer = await sendEngineRequest({ ...server, path: "/openapi.json", timeoutMs: SHORT_MS });
  if ("failed" in answer) return undefined;
  const schema = z.object({ info: z.object({ title: z.literal("oMLX API"), version: z.string() }) });
  return schema.safeParse(parseJson(answer.body)).data?.info.version;
}

export interface OmlxApiOptions {
  /** The model folder of a server that the agent started, which lists no other models; absent: any server will do. */
  readonly modelDir?: string;
  /** Removes the model from the server's folder and settings file. */
  readonly forget: (model: string) => Promise<void>;
  /** Time for a load in addition to the time for its size. */
  readonly loadBaseMs?: number;
}

export function omlxApi(server: Server, { modelDir, forget, loadBaseMs }: OmlxApiOptions): DaemonApi {
  const read = async (): Promise<ServerStatus> => {
    const status = await readStatus(server);
    if ("failed" in status) throw new Error(status.failed);
    // The agent's server may have lost the port to another oMLX, and be about to exit.
    const real = modelDir === undefined ? "" : await realpath(modelDir).catch(() => modelDir);
    const foreign = status.models.find(
      ({ model_path: path }) => typeof path === "string" && !path.includes(real),
    );
    if (foreign !== undefined) throw new Error(`another oMLX answers on port ${server.port}`);
    return status;
  };
  return {
    loaded: async () =>
      (await read()).models
        .filter(({ loaded, is_loading: isLoading }) => loaded || isLoading)
        .map((model) => ({ model: model.id, bytes: sizeOf(model) })),
    load: async (model, signal) => {
      const { models, load_seconds_per_gb_estimate: estimate } = await read();
      const found = models.find(({ id }) => id === model);
      const bytes = found === undefined ? 0 : sizeOf(found);
      await load(server, model, loadLimitMs(bytes, estimate, loadBaseMs), signal);
    },
    unload: async (model) => {
      try {
        await unload(server, model, read);
        const admin = await login(server);
        await admin({ path: `/admin/api/hf/models/${encodeURIComponent(model)}`, method: "DELETE" });
      } finally {
        // Also if the server is hung or has exited: it would load pinned models at its next start.
        await forget(model);
      }
    },
  };
}

async function unload(server: Server, model: string, read: () => Promise<ServerStatus>): Promise<void> {
  const until = performance.now() + UNLOAD_MS;
  // A server that does not answer in time may be unloading; if it is hung, the next reading fails.
  const answer = await callOmlx(server, { path: pathOf(model, "unload"), body: {}, timeoutMs: SHORT_MS });
  // 400: the model is not loaded. 404: the server does not know the model.
  if ("status" in answer && ![200, 400, 404].includes(answer.status)) throw new Error(errorIn(answer.body));
  while (isInMemory(await read(), model)) {
    if (performance.now() > until) throw new Error(`${model} is still loaded`);
    await sleep(POLL_MS);
  }
}

export interface ModelRegistration {
  readonly settings: OmlxSettings["model"];
  /** Puts an empty model into the server's folder, and returns its name. */
  readonly placeStub: () => Promise<string>;
}

/**
 * Makes the server list a model that was put into its folder, and sets the model's settings. The server's own reload would
 * unload all models of all clients. The server also scans its folder after it has deleted a model, so this deletes a stub.
 */
export async function register(
  server: Server,
  model: string,
  { settings, placeStub }: ModelRegistration,
  signal: AbortSignal,
): Promise<void> {
  const findModel = async () => {
    const status = await readStatus(server);
    if ("failed" in status) throw new Error(status.failed);
    return status.models.find(({ id }) => id === model);
  };
  const before = await findModel();
  if (before?.loaded === true) return;
  const admin = await login(server, signal);
  if (before === undefined) {
    const stub = await placeStub();
    const deletion = await admin({ path: `/admin/api/hf/models/${stub}`, method: "DELETE" });
    if ((await findModel()) === undefined)
      throw new Error(`oMLX does not list ${model}: ${describeReply(deletion)}`);
  }
  const path = `/admin/api/models/${encodeURIComponent(model)}/settings`;
  const answer = await admin({ path, method: "PUT", body: settings });
  if ("failed" in answer || answer.status !== 200)
    throw new Error(`oMLX does not accept the model's settings: ${describeReply(answer)}`);
}

/** The admin routes require a session. */
async function login({ host, port, keyFile }: Server, signal?: AbortSignal) {
  const key = await readKey(keyFile);
  const credentials = { path: "/admin/api/login", body: { api_key: key }, timeoutMs: SHORT_MS, signal };
  const answer = key === undefined ? undefined : await sendEngineRequest({ host, port, ...credentials });
  const cookie = answer !== undefined && "status" in answer ? answer.headers?.["set-cookie"]?.[0] : undefined;
  const headers: Record<string, string> =
    cookie === undefined ? {} : { cookie: cookie.split(";", 1)[0] ?? "" };
  return (request: Pick<EngineRequest, "path" | "method" | "body">) =>
    sendEngineRequest({ host, port, timeoutMs: UNLOAD_MS, signal, headers, ...request });
}

export function describeReply(reply: EngineReply): string {
  return "failed" in reply ? reply.failed : `HTTP ${reply.status}: ${errorIn(reply.body)}`;
}

/** Sends a request with the server's key. */
export async function callOmlx(
  { host, port, keyFile }: Server,
  request: Omit<EngineRequest, "host" | "port" | "apiKey">,
): Promise<EngineReply> {
  return sendEngineRequest({ host, port, ...request, apiKey: await readKey(keyFile) });
}

export function errorIn(body: string): string {
  const message = z.object({ message: z.string() });
  const error = z.union([z.object({ error: message }), z.object({ detail: z.string() })]);
  const parsed = error.safeParse(parseJson(body));
  if (!parsed.success) return truncate(body.trim(), 300);
  return "error" in parsed.data ? parsed.data.error.message : parsed.data.detail;
}

async function load(server: Server, model: string, timeoutMs: number, signal: AbortSignal): Promise<void> {
  const until = performance.now() + timeoutMs;
  const answer = await callOmlx(server, { path: pathOf(model, "load"), body: {}, timeoutMs, signal });
  if ("failed" in answer) {
    if (signal.aborted || performance.now() < until) throw new Error(answer.failed);
    const message = `oMLX has not loaded the model within ${Math.round(timeoutMs / 1_000)} s`;
    throw new MetalbridgeError("EngineNeverHealthy", message);
  }
  if (answer.status === 200) return;
  const refused = omlxLoadFailure(answer.status, errorIn(answer.body));
  if (refused !== undefined) throw new MetalbridgeError(refused.code, refused.message);
  // 404: not found yet. 409: busy, or loading. 503: not ready, or its queue is full.
  throw new Error(`HTTP ${answer.status}: ${errorIn(answer.body)}`);
}

/** By the size of the weights, and by the seconds per GB that the server has measured. */
export function loadLimitMs(
  bytes: number,
  secondsPerGb: number | null | undefined,
  baseMs = LOAD_MS,
): number {
  const perGbMs = secondsPerGb == null ? LOAD_PER_GB_MS : secondsPerGb * 1_000 * ESTIMATE_FACTOR;
  return Math.round(baseMs + (bytes / GB) * perGbMs);
}

function isInMemory({ models }: ServerStatus, model: string): boolean {
  return models.some(({ id, loaded, is_loading: isLoading }) => id === model && (loaded || isLoading));
}

function sizeOf({ actual_size: actual, estimated_size: estimated }: ServerStatus["models"][number]): number {
  return actual ?? estimated ?? 0;
}

function pathOf(model: string, action: "load" | "unload"): string {
  return `/v1/models/${encodeURIComponent(model)}/${action}`;
}

async function readKey(file: string | undefined): Promise<string | undefined> {
  return file === undefined ? undefined : (await readFile(file, "utf8")).trim();
}
