/** Requests to a running llama-server: health, one real request, its work, its effective settings. */

import { z } from "zod";
import type { EngineGauges } from "../../../src/engines/contract/engine-gauges.ts";
import { type Gauges, parseEngineGauges, parseGauges } from "../../../src/engines/llamacpp/gauges.ts";
import { parseJson } from "../../../src/util/parse-json.ts";
import { truncate } from "../../../src/util/text.ts";
import type {
  DrainReading,
  EngineHealth,
  EngineProgress,
  EngineTarget,
  LivenessReply,
  ProbeOptions,
  RequestResult,
} from "../driver/engine.ts";
import { type EngineReply, type EngineResponse, sendEngineRequest } from "../driver/http.ts";
import { quickGet } from "../driver/quick-get.ts";

const PROBE_TIMEOUT_MS = 2_000;
const REQUEST_TIMEOUT_MS = 30_000;

export async function probeHealth(
  target: EngineTarget,
  { timeoutMs = PROBE_TIMEOUT_MS }: ProbeOptions = {},
): Promise<EngineHealth> {
  const reply = await quickGet({ ...address(target), path: "/health", timeoutMs });
  if ("failed" in reply) return { unhealthy: reply.failed };
  if (reply.status === 200) return "healthy";
  if (reply.status === 503 && reply.body.includes("Loading model")) return "loading";
  return { unhealthy: describe(reply) };
}

/**
 * The gauges prove the same as /health and show more. If they cannot be read (another key, an older engine whose busy
 * main loop is slow to answer), /health decides in the time that is left.
 */
export async function probeLive(
  target: EngineTarget,
  { timeoutMs = PROBE_TIMEOUT_MS }: ProbeOptions = {},
): Promise<LivenessReply> {
  const gaugesTimeoutMs = Math.min(PROBE_TIMEOUT_MS, Math.ceil(timeoutMs / 2));
  const reply = await quickGet({ ...address(target), path: "/metrics", timeoutMs: gaugesTimeoutMs });
  const gauges = gaugesIn(reply);
  if (gauges !== undefined)
    return { health: "healthy", progress: progressIn(gauges), generated: gauges.generated };
  const health = await probeHealth(target, { timeoutMs: timeoutMs - gaugesTimeoutMs });
  return { health, progress: "failed" in reply ? "late" : "unknown" };
}

export async function readProgress(
  target: EngineTarget,
  options: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<EngineProgress | "unknown"> {
  const gauges = gaugesIn(await quickGet({ ...address(target), path: "/metrics", ...options }));
  return gauges === undefined ? "unknown" : progressIn(gauges);
}

/** Requires the decode counter: tokens are counted at the end of a prompt, so one that takes minutes would look like a hang. */
function progressIn({ running, deferred, decodeTotal, tokensTotal }: Gauges): EngineProgress | "unknown" {
  if (decodeTotal === undefined) return "unknown";
  return { inFlight: running + deferred, decodeTotal, tokensTotal };
}

function gaugesIn(reply: EngineReply): Gauges | undefined {
  return "failed" in reply || reply.status !== 200 ? undefined : parseGauges(reply.body);
}

/** /health is 200 even when every request fails, so the probe requests one token, from the right model. */
export async function probeRequest(
  target: EngineTarget,
  { timeoutMs = REQUEST_TIMEOUT_MS, signal }: ProbeOptions = {},
): Promise<RequestResult> {
  const otherServer = await findOtherServer(target);
  if (otherServer !== undefined) return { failed: otherServer };
  const post = (path: string, body: object) =>
    sendEngineRequest({ ...address(target), path, body, timeoutMs, signal });
  const model = target.modelAlias ?? "default";
  switch (target.mode) {
    case "chat": {
      const chat = await post("/v1/chat/completions", {
        model,
        max_tokens: 1,
        messages: [{ role: "user", content: "Hi" }],
      });
      if ("failed" in chat || chat.status < 400 || chat.status >= 500) return judge(chat, '"choices"');
      return judge(await post("/completion", { prompt: "Hi", n_predict: 1 }), '"content"');
    }
    case "embedding":
      return judge(await post("/v1/embeddings", { model, input: "Hi" }), '"embedding"');
    case "rerank":
      return judge(await post("/v1/rerank", { model, query: "Hi", documents: ["Hi", "Ho"] }), '"results"');
    default:
      return target.mode satisfies never;
  }
}

/** For a drain: a partial answer counts as none. */
export async function readWork(target: EngineTarget): Promise<DrainReading | "unknown"> {
  const gauges = gaugesIn(await get(target, "/metrics"));
  if (gauges === undefined) return "unknown";
  const { running, deferred, tokensTotal, decodeTotal } = gauges;
  return { inFlight: running + deferred, tokensTotal, decodeTotal };
}

/** Does not wake a sleeping engine. */
export async function readEngineGauges(
  target: EngineTarget,
  { timeoutMs }: { readonly timeoutMs: number },
): Promise<EngineGauges | "unknown"> {
  const reply = await quickGet({ ...address(target), path: "/metrics", timeoutMs });
  if ("failed" in reply || reply.status !== 200) return "unknown";
  return parseEngineGauges(reply.body) ?? "unknown";
}

const propsSchema = z.object({ default_generation_settings: z.object({ n_ctx: z.int().positive() }) });
const modelsSchema = z.object({
  data: z.array(
    z.object({
      id: z.string(),
      aliases: z.array(z.string()).optional(),
      meta: z.object({ n_ctx: z.int().positive().optional() }).nullish(),
    }),
  ),
});

/** Tokens that one request may use, as the engine set them up. */
export async function readContextPerSlot(target: EngineTarget): Promise<number | undefined> {
  const props = propsSchema.safeParse(await getJson(target, "/props"));
  if (props.success) return props.data.default_generation_settings.n_ctx;
  const models = modelsSchema.safeParse(await getJson(target, "/v1/models"));
  return models.success ? models.data.data[0]?.meta?.n_ctx : undefined;
}

/** Describes a server of another model on the port: it is not our engine, even if it is healthy. */
async function findOtherServer(target: EngineTarget): Promise<string | undefined> {
  if (target.modelAlias === undefined) return undefined;
  const models = modelsSchema.safeParse(await getJson(target, "/v1/models"));
  if (!models.success) return undefined;
  const names = models.data.data.flatMap((model) => [model.id, ...(model.aliases ?? [])]);
  if (names.includes(target.modelAlias)) return undefined;
  const found = [...new Set(names)].join(", ") || "no model";
  return `port ${target.port} is answered by a server of ${found}, not of ${target.modelAlias}`;
}

function judge(reply: EngineReply, requiredText: string): RequestResult {
  if ("failed" in reply) return reply;
  if (reply.status === 200 && reply.body.includes(requiredText)) return "ok";
  return { failed: describe(reply) };
}

const errorSchema = z.object({ error: z.object({ message: z.string() }) });

function describe(reply: EngineResponse): string {
  const parsed = errorSchema.safeParse(parseJson(reply.body));
  const text = parsed.success ? parsed.data.error.message : reply.body;
  return `HTTP ${reply.status}: ${truncate(text.trim(), 300)}`;
}

function get(target: EngineTarget, path: string): Promise<EngineReply> {
  return sendEngineRequest({ ...address(target), path, timeoutMs: PROBE_TIMEOUT_MS });
}

async function getJson(target: EngineTarget, path: string): Promise<unknown> {
  const reply = await get(target, path);
  return "failed" in reply || reply.status !== 200 ? undefined : parseJson(reply.body);
}

function address(target: EngineTarget) {
  return { host: target.host, port: target.port, apiKey: target.apiKey };
}
