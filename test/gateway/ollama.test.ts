/**
 * A service on real Ollama behind the gate and the gateway, with the official clients and Ollama's own API.
 * CPU: a whole system with the real Ollama.
 */
import path from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeUnless } from "../bed/describe-unless.ts";
import { model, service } from "../bed/manifests.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { type System, startSystem } from "../bed/system.ts";
import { until } from "../bed/until.ts";
import { ollama } from "../fixtures/ollama.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { type StartedGateway, startGateway, whyNoGateway } from "./started-gateway.ts";

const NAMES = ["default/chat", "gpt-4o"];
/** What an Ollama before 0.14 answers, as the one of `npm run setup` is. */
const NO_ROUTE = "404 page not found";
const QUESTION = { messages: [{ role: "user" as const, content: "Hi" }], max_tokens: 4 };

const why = whyNoNodeNetwork() ?? whyNoGateway ?? (ollama === undefined ? "no Ollama" : undefined);

describeUnless(why, "Ollama behind the gateway", () => {
  let on: System;
  let gateway: StartedGateway;
  let openai: OpenAI;

  beforeAll(async () => {
    const config = { disk: { reserve: 0 }, ollama: { programs: [ollama ?? ""] } };
    on = await startSystem({ agents: [{ hostName: "mac-1", config }] });
    const file = path.join(on.farm.modelsDir, "tiny.gguf");
    await writeTinyGguf(file, { endless: true });
    const spec = {
      runtime: "ollama",
      endpoint: { modelNames: [{ name: "gpt-4o" }] },
      idle: { afterMinutes: 1, minimumResidencySeconds: 0 },
    };
    await on.apply(model("chat", file), service("chat", "mac-1", spec));
    [gateway] = await Promise.all([startGateway(on.cluster.kubeconfig), on.services.untilReady("chat")]);
    openai = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: "none", maxRetries: 0 });
  });

  afterAll(async () => {
    await gateway?.[Symbol.asyncDispose]();
    await on?.[Symbol.asyncDispose]();
  });

  const post = async (route: string, body: object) => {
    const response = await fetch(`${gateway.url}${route}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    return { status: response.status, text: await response.text() };
  };

  it.for(NAMES)("answers and streams to OpenAI's client by the name %s", async (name) => {
    const answer = await openai.chat.completions.create({ model: name, ...QUESTION });
    expect(answer.usage?.completion_tokens).toBe(4);
    const stream = await openai.chat.completions.create({ model: name, stream: true, ...QUESTION });
    const chunks: OpenAI.ChatCompletionChunk[] = [];
    for await (const chunk of stream) chunks.push(chunk);
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe("length");
  });

  it.for(NAMES)("answers and streams to Anthropic's client by the name %s", async (name, { skip }) => {
    const { text } = await post("/v1/messages", { model: name, ...QUESTION });
    skip(text.trim() === NO_ROUTE, "this Ollama has no /v1/messages");
    const anthropic = new Anthropic({ baseURL: gateway.url, apiKey: "none", maxRetries: 0 });
    const answer = await anthropic.messages.create({ model: name, ...QUESTION });
    expect(answer.usage.output_tokens).toBe(4);
    const stream = anthropic.messages.stream({ model: name, ...QUESTION });
    expect((await stream.finalMessage()).usage.output_tokens).toBe(4);
  });

  it.for(NAMES)("answers in Ollama's own API by the name %s", async (name) => {
    const question = { model: name, messages: QUESTION.messages, options: { num_predict: 4 } };
    const whole = await post("/api/chat", { ...question, stream: false });
    expect([whole.status, JSON.parse(whole.text)]).toMatchObject([200, { done: true, eval_count: 4 }]);
    const stream = await post("/api/chat", question);
    const lines = stream.text
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines.length).toBeGreaterThan(1);
    expect(lines.at(-1)).toMatchObject({ done: true, eval_count: 4 });
  });

  it("refuses a path that Ollama lacks with the list of those that it has, and another model", async () => {
    const refused = await post("/v1/rerank", { model: "chat", query: "a", documents: ["b"] });
    expect([refused.status, JSON.parse(refused.text)]).toMatchObject([
      404,
      { error: { code: "unknown_path", message: expect.stringContaining("/api/chat") } },
    ]);
    const pull = await post("/api/pull", { model: "chat" });
    expect([pull.status, pull.text]).toEqual([404, expect.stringContaining("/api/pull")]);
  });

  it("is unloaded without requests, and loaded for the next one", async () => {
    await until(async () => expect((await on.services.serviceStatus("chat")).phase).toBe("Idle"));
    const answer = await openai.chat.completions.create({ model: "gpt-4o", ...QUESTION });
    expect(answer.usage?.completion_tokens).toBe(4);
  });
});
