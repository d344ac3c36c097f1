/** Does with the official clients for Node what clients.py does with those for Python. */
import Anthropic, { APIError as AnthropicError } from "@anthropic-ai/sdk";
import OpenAI, { APIError as OpenAIError } from "openai";

export interface Target {
  /** URLs without a path. */
  readonly chat: string;
  readonly embedding: string;
  readonly rerank: string;
  readonly model: string;
  readonly key: string;
  /** A key with one request at a time, where there are limits. */
  readonly oneKey?: string;
}

type Point = (target: Target) => Promise<unknown>;

let sent = 0;
let onRefused = (): void => undefined;
const counting: typeof fetch = async (...request) => {
  sent += 1;
  const response = await fetch(...request);
  if (response.status === 429) onRefused();
  return response;
};

const openai = (target: Target, { apiKey = target.key, url = target.chat, maxRetries = 2 } = {}) =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries, fetch: counting });
const anthropic = (target: Target, apiKey = target.key) =>
  new Anthropic({ baseURL: target.chat, apiKey, maxRetries: 2, fetch: counting });

const messages = [{ role: "user" as const, content: "Hi" }];
const schema = {
  type: "object" as const,
  properties: { color: { enum: ["red", "blue"] } },
  required: ["color"],
  additionalProperties: false,
};
const chatOf = ({ model }: Target) => ({ model, messages, max_tokens: 8, temperature: 0, seed: 1 });
const messageOf = ({ model }: Target) => ({ model, messages, max_tokens: 8, temperature: 0 });

/** The same points as in clients.py, with the same results. */
export const POINTS: Readonly<Record<string, Point>> = {
  "lists models": async (target) =>
    (await openai(target).models.list()).data.some(({ id }) => id === target.model),
  "retrieves a model": async (target) => (await openai(target).models.retrieve(target.model)).id,
  chats: async (target) => {
    const { choices, usage } = await openai(target).chat.completions.create(chatOf(target));
    return [choices[0]?.message.content, usage?.completion_tokens];
  },
  "streams a chat": async (target) => {
    let text = "";
    let tokens: number | undefined;
    const options = { stream: true, stream_options: { include_usage: true } } as const;
    for await (const part of await openai(target).chat.completions.create({
      ...chatOf(target),
      ...options,
    })) {
      text += part.choices.map(({ delta }) => delta.content ?? "").join("");
      tokens = part.usage?.completion_tokens ?? tokens;
    }
    return [text, tokens];
  },
  /** A random model calls no tool, so its earlier call is given. */
  "sends tools, a call and its result": async (target) => {
    const call = { name: "paint", arguments: JSON.stringify({ color: "red" }) };
    const called = { id: "call-1", type: "function" as const, function: call };
    const ask = {
      ...chatOf(target),
      messages: [
        ...messages,
        { role: "assistant" as const, content: "", tool_calls: [called] },
        { role: "tool" as const, tool_call_id: "call-1", content: "done" },
      ],
      tools: [{ type: "function" as const, function: { name: "paint", parameters: schema } }],
      tool_choice: "auto" as const,
    };
    const [choice] = (await openai(target).chat.completions.create(ask)).choices;
    return [choice?.finish_reason, choice?.message.content];
  },
  "answers by a JSON schema": async (target) => {
    const json_schema = { name: "answer", schema, strict: true };
    const response_format = { type: "json_schema" as const, json_schema };
    const ask = { ...chatOf(target), max_tokens: 200, response_format };
    const [choice] = (await openai(target).chat.completions.create(ask)).choices;
    return Object.keys(JSON.parse(choice?.message.content ?? ""));
  },
  "responds, whole and streamed": async (target) => {
    const ask = { model: target.model, input: "Hi", max_output_tokens: 8, temperature: 0 };
    const { output_text } = await openai(target).responses.create(ask);
    const events: string[] = [];
    for await (const { type } of await openai(target).responses.create({ ...ask, stream: true }))
      events.push(type);
    return [output_text, events[0], events.at(-1)];
  },
  /** A point that fails here is a llama-server that does more: change docs/gateway.md. */
  "cannot use the stream helper of responses": async (target) => {
    const ask = { model: target.model, input: "Hi", max_output_tokens: 8 };
    const stream = openai(target).responses.stream(ask);
    const text = await stream.finalResponse().then(
      () => undefined,
      ({ message }: Error) => message,
    );
    if (text !== "missing output at index undefined") throw new Error(text ?? "it can now");
    return true;
  },
  embeds: async (target) => {
    const client = openai(target, { url: target.embedding });
    const { data } = await client.embeddings.create({ model: "embed", input: ["a", "b"] });
    return [data.length, data[0]?.embedding.length];
  },
  reranks: async (target) => {
    const body = { model: "rank", query: "sea", documents: ["a ship", "a tree"], top_n: 1 };
    const client = openai(target, { url: target.rerank });
    const { results } = await client.post<{ results: object[] }>("/rerank", { body });
    return [Object.keys(results[0] ?? {}), results.length];
  },
  "sends a message": async (target) => {
    const { content, usage, stop_reason } = await anthropic(target).messages.create(messageOf(target));
    return [textOf(content), usage.output_tokens, stop_reason];
  },
  "streams a message": async (target) => {
    const { content, usage } = await anthropic(target).messages.stream(messageOf(target)).finalMessage();
    return [textOf(content), usage.output_tokens];
  },
  "sends tools, a call and its result with messages": async (target) => {
    const used = { type: "tool_use" as const, id: "call-1", name: "paint", input: { color: "red" } };
    const result = { type: "tool_result" as const, tool_use_id: "call-1", content: "done" };
    const ask = {
      ...messageOf(target),
      messages: [
        ...messages,
        { role: "assistant" as const, content: [used] },
        { role: "user" as const, content: [result] },
      ],
      tools: [{ name: "paint", description: "Paints.", input_schema: schema }],
      tool_choice: { type: "auto" as const },
    };
    const { content, stop_reason } = await anthropic(target).messages.create(ask);
    return [stop_reason, textOf(content)];
  },
  "counts the tokens of a message": async (target) =>
    (await anthropic(target).messages.countTokens({ model: target.model, messages })).input_tokens > 0,
  "reports an unknown model, without a retry": async (target) => [
    await failure(() => openai(target).chat.completions.create({ ...chatOf(target), model: "absent" })),
    await failure(() => anthropic(target).messages.create({ ...messageOf(target), model: "absent" })),
  ],
  "reports a wrong key, without a retry": async (target) => [
    await failure(() => openai(target, { apiKey: "wrong" }).chat.completions.create(chatOf(target))),
    await failure(() => anthropic(target, "wrong").messages.create(messageOf(target))),
  ],
  "reports an invalid request, without a retry": async (target) => {
    const wrong = { messages: "x" as unknown as typeof messages };
    return [
      await failure(() => openai(target).chat.completions.create({ ...chatOf(target), ...wrong })),
      await failure(() => anthropic(target).messages.create({ ...messageOf(target), ...wrong })),
    ];
  },
  "reports a prompt that is too long, without a retry": (target) => {
    const long = [{ role: "user" as const, content: "sea ".repeat(20_000) }];
    return failure(() => openai(target).chat.completions.create({ ...chatOf(target), messages: long }));
  },
  "retries a request over a limit until it is answered": async (target) => {
    if (target.oneKey === undefined) return "no limits";
    const client = openai(target, { apiKey: target.oneKey, maxRetries: 8 });
    const ask = { ...chatOf(target), max_tokens: 6_000, stream: true } as const;
    const stream = await client.chat.completions.create(ask);
    await stream[Symbol.asyncIterator]().next();
    onRefused = () => stream.controller.abort();
    sent = 0;
    const { usage } = await client.chat.completions.create(chatOf(target));
    return [usage?.completion_tokens, sent > 1];
  },
  "cancels a stream, and the slot is free": async (target) => {
    const ask = { ...chatOf(target), max_tokens: 6_000, stream: true } as const;
    for await (const _ of await openai(target).chat.completions.create(ask)) break;
    // The service has one slot.
    const client = openai(target, { maxRetries: 0 }).withOptions({ timeout: 10_000 });
    return (await client.chat.completions.create(chatOf(target))).usage?.completion_tokens;
  },
};

/** What each point gave. */
export async function tryNodeClients(target: Target): Promise<Record<string, unknown>> {
  const results: Record<string, unknown> = {};
  for (const [point, run] of Object.entries(POINTS))
    results[point] = await run(target).catch((error: Error) =>
      `${error.name}: ${error.message}`.slice(0, 300),
    );
  return results;
}

/** Name, status and number of requests: what a client must not repeat is sent once. */
async function failure(work: () => Promise<unknown>) {
  sent = 0;
  try {
    await work();
  } catch (error) {
    if (error instanceof OpenAIError || error instanceof AnthropicError)
      return [error.constructor.name, error.status, sent];
    throw error;
  }
  return ["answered", 200, sent];
}

function textOf(content: readonly Anthropic.ContentBlock[]): string | undefined {
  const [part] = content;
  return part?.type === "text" ? part.text : undefined;
}
