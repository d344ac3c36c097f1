/** Asking a running oMLX about one of its models. */
import { truncate } from "../../../src/util/text.ts";
import type { EngineHealth, EngineTarget, RequestResult } from "../engine.ts";
import { callOmlx, errorIn, readStatus } from "./api.ts";

const PROBE_TIMEOUT_MS = 2_000;
const REQUEST_TIMEOUT_MS = 30_000;

/** The server answers, and has exactly this model in memory. */
export async function probeHealth(
  target: EngineTarget,
  options: { readonly timeoutMs?: number } = {},
): Promise<EngineHealth> {
  const status = await readStatus(target, options.timeoutMs ?? PROBE_TIMEOUT_MS);
  if ("failed" in status) return { unhealthy: status.failed };
  const model = status.models.find(({ id }) => id === target.modelAlias);
  if (model?.loaded === true) return "healthy";
  if (model?.is_loading === true) return "loading";
  return { unhealthy: `oMLX no longer has ${target.modelAlias} in memory` };
}

/** One token, one embedding, or one document. */
export async function probeRequest(
  target: EngineTarget,
  options: { readonly timeoutMs?: number; readonly signal?: AbortSignal } = {},
): Promise<RequestResult> {
  const { timeoutMs = REQUEST_TIMEOUT_MS, signal } = options;
  const [path, body, wanted] = questionFor(target);
  const answer = await callOmlx(target, {
    path,
    body: { model: target.modelAlias, ...body },
    timeoutMs,
    signal,
  });
  if ("failed" in answer) return answer;
  if (answer.status === 200 && answer.body.includes(wanted)) return "ok";
  return { failed: `HTTP ${answer.status}: ${truncate(errorIn(answer.body), 300)}` };
}

function questionFor({ mode }: EngineTarget): readonly [string, object, string] {
  switch (mode) {
    case "chat":
      return [
        "/v1/chat/completions",
        { max_tokens: 1, messages: [{ role: "user", content: "Hi" }] },
        '"choices"',
      ];
    case "embedding":
      return ["/v1/embeddings", { input: "Hi" }, '"data"'];
    case "rerank":
      return ["/v1/rerank", { query: "Hi", documents: ["Hi"] }, '"results"'];
    default:
      return mode satisfies never;
  }
}

/** Tokens that one request may use, where the server says so. */
export async function readContextPerSlot(target: EngineTarget): Promise<number | undefined> {
  const status = await readStatus(target);
  if ("failed" in status) return undefined;
  return status.models.find(({ id }) => id === target.modelAlias)?.max_context_window ?? undefined;
}
