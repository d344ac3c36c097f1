/** One real request, as a client of the Service sends it, and how it ended. */
import { type Agent, request } from "node:http";
import type { Socket } from "node:net";
import { endAfterThis, localPortOf } from "./connections.ts";

export interface Question {
  readonly url: string;
  readonly isStreamed: boolean;
  /** Of the message. */
  readonly content?: string;
  readonly agent: Agent;
  readonly maxTokens: number;
  readonly timeoutMs: number;
  /** Of the gateway. */
  readonly by?:
    | { readonly key: string; readonly model: string; readonly deadlineSeconds: number }
    | undefined;
}

export interface Answer {
  readonly firstByteAt?: number;
  readonly failure: string;
  readonly status?: number;
  /** Of a connection that was used before. */
  readonly idleMs?: number;
  /** Since the first request on that connection. */
  readonly ageMs?: number;
  readonly localPort?: number;
}

/** When each socket's first request began. */
const firstUsed = new WeakMap<Socket, number>();
/** When each socket's last answer ended. */
const lastUsed = new WeakMap<Socket, number>();

export function monotonicEpochMs(): number {
  return performance.timeOrigin + performance.now();
}

/** Never rejects: a request that failed is what we are here for. */
export function ask({
  url,
  isStreamed,
  content = "Tell me about the sea.",
  agent,
  maxTokens,
  timeoutMs,
  by,
}: Question): Promise<Answer> {
  const body = JSON.stringify({
    model: by?.model,
    messages: [{ role: "user", content }],
    max_tokens: maxTokens,
    stream: isStreamed,
  });
  return new Promise((resolve) => {
    const seen: { -readonly [K in keyof Answer]?: Answer[K] } = {};
    let text = "";
    let socket: Socket | undefined;
    const end = (failure: string): void => {
      clearTimeout(late);
      if (socket !== undefined) lastUsed.set(socket, performance.now());
      resolve({ ...seen, failure });
    };
    const call = request(
      `${url}/v1/chat/completions`,
      { method: "POST", agent, headers: { "content-type": "application/json", ...headersOf(by) } },
      (response) => {
        seen.status = response.statusCode ?? 0;
        response.on("data", (chunk: Buffer) => {
          seen.firstByteAt ??= monotonicEpochMs();
          text += chunk.toString();
        });
        response.once("end", () => end(complaint(response.statusCode ?? 0, text, isStreamed, by?.model)));
        response.once("error", (error) => end(`cut: ${error.message}`));
      },
    );
    const late = setTimeout(() => call.destroy(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    call.once("socket", (one) => {
      socket = one;
      const used = lastUsed.get(one);
      if (isStreamed) endAfterThis(one);
      const first = firstUsed.get(one) ?? performance.now();
      firstUsed.set(one, first);
      if (used !== undefined) seen.idleMs = Math.round(performance.now() - used);
      if (used !== undefined) seen.ageMs = Math.round(performance.now() - first);
      const port = localPortOf(one);
      if (port !== undefined) seen.localPort = port;
    });
    call.once("error", (error: NodeJS.ErrnoException) => end(`${error.code ?? "error"}: ${error.message}`));
    call.end(body);
  });
}

function headersOf(by: Question["by"]): Readonly<Record<string, string>> {
  if (by === undefined) return {};
  return { authorization: `Bearer ${by.key}`, "x-request-deadline": String(by.deadlineSeconds) };
}

/** Why an answer that came is none, or "". */
export function complaint(status: number, text: string, isStreamed: boolean, model?: string): string {
  if (status !== 200) return `status ${status}: ${text.slice(0, 200)}`;
  const answering = /"model":"([^"]*)"/.exec(text)?.[1] ?? "";
  // A shared Ollama answers with its own name of the model.
  if (model !== undefined && answering !== model && !answering.startsWith("metalbridge-"))
    return `the answer of another model: ${text.slice(0, 200)}`;
  if (isStreamed) return text.trimEnd().endsWith("data: [DONE]") ? "" : "the stream ended without [DONE]";
  try {
    const { choices } = JSON.parse(text) as { choices?: readonly unknown[] };
    return Array.isArray(choices) && choices.length === 1 ? "" : `not an answer: ${text.slice(0, 200)}`;
  } catch {
    return `not JSON: ${text.slice(0, 200)}`;
  }
}
