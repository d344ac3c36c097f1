/** One URL for two models on two hosts: real control plane, agents, llama-server and Envoy, and the official clients. */

import { once } from "node:events";
import { connect } from "node:net";
import path from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { afterAll, beforeAll, expect, it } from "vitest";
import { JSON_TYPE, send } from "../../gateway/envoy/run/fixtures/envoy-bed.ts";
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { model, service } from "../bed/manifests.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { freePort } from "../bed/ports.ts";
import { type System, startSystem } from "../bed/system.ts";
import { until } from "../bed/until.ts";
import { smallDisk } from "../fixtures/small-disk.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { type StartedGateway, startGateway, whyNoGateway } from "./started-gateway.ts";

const MINUTE = 60_000;
const HOSTS = ["mac-1", "mac-2"];

describeUnless(whyNoNodeNetwork() ?? whyNoGateway, "one URL for the farm", () => {
  let on: System;
  let gateway: StartedGateway;
  let openai: OpenAI;

  beforeAll(async () => {
    const config = { disk: { reserve: 0 } };
    on = await startSystem({ agents: HOSTS.map((hostName) => ({ hostName, config })) });
    const file = path.join(on.farm.modelsDir, "tiny.gguf");
    await writeTinyGguf(file, { endless: true, layers: 2, embeddingSize: 64, contextLength: 8192 });
    const spec = { contextSize: 4096, parallelSlots: 4, rollout: { drainSeconds: 5 } };
    await on.apply(
      model("chat", file),
      service("chat", "mac-1", { ...spec, endpoint: { modelNames: [{ name: "gpt-4o" }] } }),
      model("code", file),
      service("code", "mac-2", spec),
    );
    [gateway] = await Promise.all([
      startGateway(on.cluster.kubeconfig),
      on.services.untilReady("chat"),
      on.services.untilReady("code"),
    ]);
    openai = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: "none" });
  }, 4 * MINUTE);

  afterAll(async () => {
    await gateway?.[Symbol.asyncDispose]();
    await on?.[Symbol.asyncDispose]();
  });

  const ask = (name: string, rest: object = {}) =>
    openai.chat.completions.create({
      model: name,
      messages: [{ role: "user", content: "Hi" }],
      max_tokens: 4,
      ...rest,
    } as OpenAI.ChatCompletionCreateParamsNonStreaming);

  it("answers no page of another origin, and none whose name resolves to loopback, while there is no key", async () => {
    const port = Number(new URL(gateway.url).port);
    const body = { model: "chat", messages: [{ role: "user", content: "Hi" }], max_tokens: 1 };
    const statusOf = async (where: string, method: string, headers: Readonly<Record<string, string>>) =>
      (
        await send(port, where, {
          method,
          headers: { ...JSON_TYPE, ...headers },
          body: method === "GET" ? "" : body,
        })
      ).status;
    const foreign = Object.entries({ host: "rebound.example:4000", origin: "https://evil.example" });
    for (const [name, value] of foreign) {
      expect(await statusOf("/v1/chat/completions", "POST", { [name]: value })).toBe(401);
      expect(await statusOf("/v1/models", "GET", { [name]: value })).toBe(401);
    }
    expect(await statusOf("/v1/models", "GET", { host: `localhost:${port}` })).toBe(200);
  });

  it("lists both models once, with all their names and their state", async () => {
    const list = await until(async () => {
      const { data } = await openai.models.list();
      expect(data.map(({ id }) => id)).toEqual(["chat", "code"]);
      return data;
    });
    expect(list.find(({ id }) => id === "chat")).toMatchObject({
      aliases: ["default/chat", "gpt-4o"],
      owned_by: "default",
      mode: "chat",
      context_length: 1024,
      ready: true,
    });
    expect(await openai.models.retrieve("gpt-4o")).toMatchObject({ service: "default/chat" });
  });

  it("answers by model, alias, full name and base URL of a service", async () => {
    for (const name of ["chat", "gpt-4o", "default/chat", "code"])
      expect((await ask(name)).usage?.completion_tokens).toBe(4);
    const own = new OpenAI({ baseURL: `${gateway.url}/s/default/code/v1`, apiKey: "none" });
    const answer = await own.chat.completions.create({
      model: "anything",
      messages: [{ role: "user", content: "Hi" }],
      max_tokens: 4,
    });
    expect(answer.usage?.completion_tokens).toBe(4);
    expect((await own.models.list()).data.map(({ id }) => id)).toEqual(["code"]);
  });

  it("keeps an alias at the older of two services that request it, and says so at the other one", async () => {
    const modelNames = [{ name: "gpt-4o" }, { name: "coder" }];
    await on.farm.objects.patch("default", "isvc/code", { spec: { endpoint: { modelNames } } });
    await until(async () =>
      expect(await openai.models.retrieve("coder")).toMatchObject({ service: "default/code" }),
    );
    await until(async () => {
      const { status } = await on.farm.objects.read(INFERENCE_SERVICES, "code");
      const refused = status?.conditions?.find(
        ({ type }: { readonly type: string }) => type === "ModelNamesAccepted",
      );
      expect(refused).toMatchObject({
        status: "False",
        message: expect.stringMatching(/gpt-4o.*default\/chat/),
      });
    });
    expect(await openai.models.retrieve("gpt-4o")).toMatchObject({ service: "default/chat" });
    expect((await ask("coder")).usage?.completion_tokens).toBe(4);
  });

  it("streams tokens as the engine sends them, and a client that leaves ends the work of the engine", async () => {
    const stream = await openai.chat.completions.create({
      model: "chat",
      messages: [{ role: "user", content: "Hi" }],
      stream: true,
      max_tokens: 3_000,
    });
    let chunks = 0;
    for await (const _ of stream) {
      chunks += 1;
      if (chunks === 5) break;
    }
    await until(async () => {
      expect(await gateway.metrics()).toMatch(
        /metalbridge_gateway_requests_in_flight\{namespace="default",service="chat"\} 0/,
      );
    });
    expect(chunks).toBe(5);
  });

  it("passes tools to the engine, and their stream whole to the client", async () => {
    const parameters = { type: "object", properties: { city: { type: "string", enum: ["Bern"] } } };
    const stream = await openai.chat.completions.create({
      model: "chat",
      messages: [{ role: "user", content: "Hi" }],
      tools: [{ type: "function", function: { name: "weather", parameters } }],
      tool_choice: "required",
      max_tokens: 64,
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks: OpenAI.ChatCompletionChunk[] = [];
    for await (const chunk of stream) chunks.push(chunk);
    const reasons = chunks.flatMap(({ choices }) => choices[0]?.finish_reason ?? []);
    // What a random model calls is no matter of the gateway.
    expect(["length", "tool_calls"]).toContain(reasons.at(-1));
    expect(chunks.at(-1)?.usage?.completion_tokens).toBeGreaterThan(0);
  });

  it("sends a request that follows a stream at once, although the engine closes the stream's connection", async () => {
    for (let round = 0; round < 40; round += 1) {
      const stream = await openai.chat.completions.create(
        { model: "chat", messages: [{ role: "user", content: "Hi" }], stream: true, max_tokens: 2 },
        { maxRetries: 0 },
      );
      for await (const _ of stream);
      await openai.chat.completions.create(
        { model: "chat", messages: [{ role: "user", content: "Hi" }], max_tokens: 1 },
        { maxRetries: 0 },
      );
    }
  });

  it("serves Anthropic's messages, in their own dialect of errors too", async () => {
    const anthropic = new Anthropic({ baseURL: gateway.url, apiKey: "none", maxRetries: 0 });
    const request = { max_tokens: 4, messages: [{ role: "user" as const, content: "Hi" }] };
    expect((await anthropic.messages.create({ model: "code", ...request })).usage.output_tokens).toBe(4);
    const stream = anthropic.messages.stream({ model: "code", ...request });
    expect((await stream.finalMessage()).usage.output_tokens).toBe(4);
    await expect(anthropic.messages.create({ model: "no-such", ...request })).rejects.toMatchObject({
      status: 404,
      error: { type: "error", error: { type: "not_found_error" } },
    });
    expect(
      (await anthropic.messages.countTokens({ model: "code", messages: request.messages })).input_tokens,
    ).toBeGreaterThan(0);
  });

  it("refuses with an error that says what to do, and clients do not retry it", async () => {
    await expect(ask("no-such-model")).rejects.toMatchObject({ status: 404, code: "model_not_found" });
    await expect(openai.embeddings.create({ model: "", input: "x" })).rejects.toMatchObject({
      status: 400,
      code: "model_required",
    });
    const broken = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: '{"model": "chat", ',
    });
    expect(broken.status).toBe(400);
    expect(broken.headers.get("x-should-retry")).toBe("false");
    expect(await broken.json()).toMatchObject({ error: { code: "invalid_json" } });
    const path = await fetch(`${gateway.url}/v1/files`, { method: "POST", body: "{}" });
    expect([path.status, await path.json()]).toMatchObject([404, { error: { code: "unknown_path" } }]);
    const speech = await fetch(`${gateway.url}/v1/audio/speech`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: '{"model":"chat","input":"x"}',
    });
    expect([speech.status, await speech.json()]).toMatchObject([404, { error: { code: "unknown_path" } }]);
  });

  it.each([
    ["POST", "/v1/models", 404],
    ["GET", "/v1/models", 200],
    ["PUT", "/s/default/chat/v1/models/chat", 404],
    ["POST", "/healthz", 200],
    ["POST", "/v1/nothing", 404],
  ])("answers %s %s before the body has arrived", async (method, path, status) => {
    const socket = connect(gateway.port, "127.0.0.1");
    socket.write(`${method} ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${2 ** 30}\r\n\r\nx`);
    const [answer] = await once(socket, "data");
    socket.destroy();
    expect(String(answer)).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  });

  it("holds requests while the decision service is frozen, answers them afterwards, and frees every slot", async () => {
    const stream = await openai.chat.completions.create({
      model: "chat",
      messages: [{ role: "user", content: "Hi" }],
      stream: true,
      max_tokens: 200,
    });
    const { pid } = gateway.part();
    process.kill(pid, "SIGSTOP");
    try {
      // Its bytes do not pass through the decision service.
      for await (const _ of stream);
      const held = Promise.all([ask("chat"), ask("gpt-4o"), ask("code")]);
      const patience = new OpenAI({
        baseURL: `${gateway.url}/v1`,
        apiKey: "none",
        maxRetries: 0,
        timeout: 500,
      });
      const request = { messages: [{ role: "user" as const, content: "Hi" }], max_tokens: 4 };
      await expect(patience.chat.completions.create({ model: "chat", ...request })).rejects.toThrow(
        OpenAI.APIConnectionTimeoutError,
      );
      process.kill(pid, "SIGCONT");
      for (const { usage } of await held) expect(usage?.completion_tokens).toBe(4);
    } finally {
      process.kill(pid, "SIGCONT");
    }
    await until(async () => {
      const metrics = await gateway.metrics();
      const inFlight = [...metrics.matchAll(/^metalbridge_gateway_requests_in_flight\{.*\} (\d+)$/gm)];
      expect(inFlight.map(([, count]) => count)).toEqual(inFlight.map(() => "0"));
      expect(metrics).toMatch(
        /^metalbridge_gateway_tokens_total\{.*service="chat".*type="output"\} \d{3,}$/m,
      );
    });
  });

  it("refuses requests for a service that is scaled to zero, and answers those for others", async () => {
    await on.farm.objects.scale("default", "isvc/code", 0);
    await until(async () => {
      await expect(ask("code")).rejects.toMatchObject({ status: 503, code: "model_unavailable" });
    });
    expect((await ask("chat")).usage?.completion_tokens).toBe(4);
  });

  it("keeps requests over a restart of the decision service", async () => {
    const results: (number | string)[] = [];
    let isRestarted = false;
    const loop = async () => {
      while (!isRestarted || results.length <= 20)
        results.push(
          await ask("chat").then(
            () => 200,
            (error: unknown) => String(error),
          ),
        );
    };
    const restart = async () => {
      await gateway.part().kill("SIGKILL");
      await gateway.restart().finally(() => {
        isRestarted = true;
      });
    };
    await Promise.all([loop(), restart()]);
    expect(new Set(results)).toEqual(new Set([200]));
  });

  it("starts on a full disk once there is room, and says until then what it waits for", async ({ skip }) => {
    using disk = smallDisk() ?? skip("this process may not mount file systems");
    disk.fill();
    const dir = path.join(disk.path, "run");
    const at = { address: "127.0.0.1", port: await freePort() };
    const starting = startGateway(on.cluster.kubeconfig, ["--dir", dir], at);
    const waiting = until(async () => {
      const ready = await fetch(`http://127.0.0.1:${at.port}/readyz`);
      expect([ready.status, await ready.text()]).toEqual([503, `waiting for space in ${dir}\n`]);
    });
    await Promise.race([waiting, starting]);
    disk.free();
    await using started = await starting;
    const client = new OpenAI({ baseURL: `${started.url}/v1`, apiKey: "none" });
    const { usage } = await client.chat.completions.create({
      model: "chat",
      messages: [{ role: "user", content: "Hi" }],
      max_tokens: 4,
    });
    expect(usage?.completion_tokens).toBe(4);
    expect(
      started
        .part()
        .log()
        .match(/"code":"StateDiskFull"/g),
    ).toHaveLength(1);
  });

  it("stops with its Envoy", async () => {
    const pid = gateway.envoyPid();
    await gateway.part().kill("SIGTERM");
    expect(() => process.kill(pid, 0)).toThrow("ESRCH");
  });
});
