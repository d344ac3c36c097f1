/** Asking a running Ollama about one of its models. */
import { truncate } from "../../../src/util/text.ts";
import type { EngineHealth, EngineTarget, RequestResult } from "../engine.ts";
import { sendEngineRequest } from "../io/http.ts";
import { errorIn, keepLoaded, runningModels } from "./api.ts";

const PROBE_TIMEOUT_MS = 2_000;
const REQUEST_TIMEOUT_MS = 30_000;

/**
 * The server answers, has exactly this model (names are never compared by their beginning), and the model's own process answers
 * the server. Asking that needs no slot, and renews that the model stays: any client can make it leave after some idle minutes.
 */
export async function probeHealth(
  target: EngineTarget,
  { timeoutMs = PROBE_TIMEOUT_MS }: { readonly timeoutMs?: number } = {},
): Promise<EngineHealth> {
  const by = performance.now() + timeoutMs;
  const models = await runningModels(target, timeoutMs);
  if ("failed" in models) return { unhealthy: models.failed };
  const model = target.modelAlias ?? "";
  if (!models.some(({ name }) => name === model))
    return { unhealthy: `Ollama no longer has ${model} in memory` };
  return keepLoaded(target, model, { timeoutMs: Math.max(1, by - performance.now()) }).then(
    () => "healthy",
    (error: Error) => ({
      unhealthy: `Ollama answers, and its process for ${model} does not: ${error.message}`,
    }),
  );
}

/** One token, or one embedding. */
export async function probeRequest(
  target: EngineTarget,
  options: { readonly timeoutMs?: number; readonly signal?: AbortSignal } = {},
): Promise<RequestResult> {
  const { host, port, mode, modelAlias: model } = target;
  const { timeoutMs = REQUEST_TIMEOUT_MS, signal } = options;
  const [path, body, wanted] =
    mode === "embedding"
      ? ["/api/embed", { model, input: "Hi" }, '"embeddings"']
      : [
          "/api/chat",
          { model, stream: false, options: { num_predict: 1 }, messages: [{ role: "user", content: "Hi" }] },
          '"message"',
        ];
  const answer = await sendEngineRequest({ host, port, path, body, timeoutMs, signal });
  if ("failed" in answer) return answer;
  if (answer.status === 200 && answer.body.includes(wanted)) return "ok";
  return { failed: `HTTP ${answer.status}: ${truncate(errorIn(answer.body), 300)}` };
}

/** Tokens that one request may use, where this version says so. */
export async function readContextPerSlot(target: EngineTarget): Promise<number | undefined> {
  const models = await runningModels(target);
  return "failed" in models
    ? undefined
    : models.find(({ name }) => name === target.modelAlias)?.context_length;
}
