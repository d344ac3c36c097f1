/** Requests to a running Ollama about one of its models. */
import { truncate } from "../../../src/util/text.ts";
import type { EngineHealth, EngineTarget, ProbeOptions, RequestResult } from "../engine.ts";
import { askOfModel, errorIn, keepLoaded, runningModels } from "./api.ts";

const PROBE_TIMEOUT_MS = 2_000;
const REQUEST_TIMEOUT_MS = 30_000;

/**
 * Healthy: the server answers, has exactly this model in memory, and the model's own process answers the server. The last
 * check needs no slot and renews the model's keep-alive, which any client can shorten to a few idle minutes.
 */
export async function probeHealth(
  target: EngineTarget,
  { timeoutMs = PROBE_TIMEOUT_MS }: ProbeOptions = {},
): Promise<EngineHealth> {
  const deadline = performance.now() + timeoutMs;
  const models = await runningModels(target, timeoutMs);
  if ("failed" in models) return { unhealthy: models.failed };
  const model = target.modelAlias ?? "";
  if (!models.some(({ name }) => name === model))
    return { unhealthy: `Ollama no longer has ${model} in memory` };
  return keepLoaded(target, model, { timeoutMs: Math.max(1, deadline - performance.now()) }).then(
    () => "healthy",
    (error: Error) => ({
      unhealthy: `Ollama answers, and its process for ${model} does not: ${error.message}`,
    }),
  );
}

/** One token, or one embedding. */
export async function probeRequest(
  target: EngineTarget,
  { timeoutMs = REQUEST_TIMEOUT_MS, signal }: ProbeOptions = {},
): Promise<RequestResult> {
  const { host, port, mode, modelAlias: model } = target;
  const [path, body, requiredText] =
    mode === "embedding"
      ? ["/api/embed", { model, input: "Hi" }, '"embeddings"']
      : [
          "/api/chat",
          { model, stream: false, options: { num_predict: 1 }, messages: [{ role: "user", content: "Hi" }] },
          '"message"',
        ];
  const answer = await askOfModel({ host, port, path, body, timeoutMs, signal });
  if ("failed" in answer) return answer;
  if (answer.status === 200 && answer.body.includes(requiredText)) return "ok";
  return { failed: `HTTP ${answer.status}: ${truncate(errorIn(answer.body), 300)}` };
}

/** Undefined if this version of Ollama does not report it. */
export async function readContextPerSlot(target: EngineTarget): Promise<number | undefined> {
  const models = await runningModels(target);
  if ("failed" in models) return undefined;
  return models.find(({ name }) => name === target.modelAlias)?.context_length;
}
