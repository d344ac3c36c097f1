/** Requests to a running oMLX about one of its models. */
import type { Mode } from "../../../src/api/engine-settings.ts";
import { truncate } from "../../../src/util/text.ts";
import type { EngineHealth, EngineTarget, ProbeOptions, RequestResult } from "../engine.ts";
import { callOmlx, errorIn, readStatus } from "./api.ts";

const PROBE_TIMEOUT_MS = 2_000;
const REQUEST_TIMEOUT_MS = 30_000;

/** Healthy: the server answers, and has exactly this model in memory. */
export async function probeHealth(
  target: EngineTarget,
  { timeoutMs = PROBE_TIMEOUT_MS }: ProbeOptions = {},
): Promise<EngineHealth> {
  const status = await readStatus(target, timeoutMs);
  if ("failed" in status) return { unhealthy: status.failed };
  const model = status.models.find(({ id }) => id === target.modelAlias);
  if (model?.loaded === true) return "healthy";
  if (model?.is_loading === true) return "loading";
  return { unhealthy: `oMLX no longer has ${target.modelAlias} in memory` };
}

const PROBES: Readonly<Record<Mode, readonly [path: string, body: object, requiredText: string]>> = {
  chat: ["/v1/chat/completions", { max_tokens: 1, messages: [{ role: "user", content: "Hi" }] }, '"choices"'],
  embedding: ["/v1/embeddings", { input: "Hi" }, '"data"'],
  rerank: ["/v1/rerank", { query: "Hi", documents: ["Hi"] }, '"results"'],
};

/** One token, one embedding, or one document. */
export async function probeRequest(
  target: EngineTarget,
  { timeoutMs = REQUEST_TIMEOUT_MS, signal }: ProbeOptions = {},
): Promise<RequestResult> {
  const [path, extra, requiredText] = PROBES[target.mode];
  const body = { model: target.modelAlias, ...extra };
  const answer = await callOmlx(target, { path, body, timeoutMs, signal });
  if ("failed" in answer) return answer;
  if (answer.status === 200 && answer.body.includes(requiredText)) return "ok";
  return { failed: `HTTP ${answer.status}: ${truncate(errorIn(answer.body), 300)}` };
}

/** Undefined if the server does not report it. */
export async function readContextPerSlot(target: EngineTarget): Promise<number | undefined> {
  const status = await readStatus(target);
  if ("failed" in status) return undefined;
  return status.models.find(({ id }) => id === target.modelAlias)?.max_context_window ?? undefined;
}
