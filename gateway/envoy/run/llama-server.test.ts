/** The real llama-server behind the real Envoy: streams, usage, and the paths of both APIs. */
import { Agent, request } from "node:http";
import path from "node:path";
import { expect, it } from "vitest";
import { LIST_PATHS } from "../../../src/engines/contract/inference-routes.ts";
import { llamacpp } from "../../../src/engines/llamacpp/description.ts";
import { describeUnless } from "../../../test/bed/describe-unless.ts";
import { whyNoEnvoy } from "../../../test/bed/envoy.ts";
import { until } from "../../../test/bed/until.ts";
import { findLlamaServer } from "../../../test/fixtures/llama-server.ts";
import { runLlamaServer } from "../../../test/fixtures/run-llama-server.ts";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { writeTinyGguf } from "../../../test/fixtures/tiny-gguf.ts";
import { grant, send, startEnvoyBed } from "./fixtures/envoy-bed.ts";

const llamaServer = findLlamaServer();
const why = whyNoEnvoy ?? (llamaServer === undefined ? "needs llama-server: npm run setup" : undefined);

describeUnless(why, "llama-server behind Envoy", () => {
  it("has every path that its description names", async () => {
    await using folder = await temporaryFolder();
    const model = path.join(folder.path, "tiny.gguf");
    await writeTinyGguf(model);
    await using engine = await runLlamaServer(llamaServer ?? "", ["-m", model, "-c", "512", "--no-warmup"]);
    const port = Number(new URL(engine.url).port);
    const statuses = llamacpp.apiPaths.map(async (where) => {
      const method = LIST_PATHS.has(where) ? "GET" : "POST";
      return [where, (await send(port, where, { method, body: method === "GET" ? "" : {} })).status] as const;
    });
    const missing = (await Promise.all(statuses)).filter(([, status]) => status === 404);
    expect(missing).toEqual([]);
  });

  it("keeps a connection, or announces that it closes it", async () => {
    await using folder = await temporaryFolder();
    const model = path.join(folder.path, "tiny.gguf");
    await writeTinyGguf(model);
    const flags = ["-m", model, "-c", "512", "--no-warmup", "--embeddings", "--pooling", "mean"];
    await using engine = await runLlamaServer(llamaServer ?? "", flags);
    using connection = oneConnection(engine.url);
    const chat = { messages: [{ role: "user", content: "hello" }], max_tokens: 2 };
    const close = { connection: "close" };
    const requests: readonly (readonly [string, object | string, object?])[] = [
      ["/v1/chat/completions", chat],
      ["/v1/chat/completions", { ...chat, stream: false }],
      ["/v1/chat/completions", { ...chat, stream: true }, close],
      ["/v1/completions", { prompt: "hello", max_tokens: 2 }],
      ["/v1/completions", { prompt: "hello", max_tokens: 2, stream: true }, close],
      ["/v1/messages", chat],
      ["/v1/messages", { ...chat, stream: true }, close],
      ["/v1/responses", { input: "hello", max_output_tokens: 2, stream: true }, close],
      ["/v1/embeddings", { input: "hello" }],
      ["/tokenize", { content: "hello" }],
      // Errors before and after the engine has the request, and a request whose body it does not read.
      ["/v1/chat/completions", "{"],
      ["/v1/chat/completions", { messages: [], stream: true }, close],
      ["/v1/completions", { prompt: "hello ".repeat(2_000) }],
      ["/v1/completions", { prompt: "hello ".repeat(2_000), stream: true }, close],
      ["/nowhere", chat],
    ];
    // More than 100 requests, after which it closes the connection in any case.
    for (let round = 0; round < 20; round += 1)
      for (const [where, body, headers] of requests) await connection.send(where, body, headers);
    expect(connection.count()).toBeLessThan(20 * requests.length);
  });

  it.each([true, false])(
    "stops a request without stream whose client has left within a second, connections kept: %s",
    async (keepsConnections) => {
      await using folder = await temporaryFolder();
      const model = path.join(folder.path, "tiny.gguf");
      await writeTinyGguf(model);
      const flags = ["-m", model, "-c", "32768", "-np", "1", "--no-warmup", "--metrics"];
      await using engine = await runLlamaServer(llamaServer ?? "", flags);
      const port = Number(new URL(engine.url).port);
      await using bed = await startEnvoyBed();
      const endpoints = [{ address: "127.0.0.1", port, isHealthy: true }];
      await bed.envoy.apply([{ name: "default/a", endpoints, keepsConnections }]);
      await until(async () => expect((await bed.call("/v1/models/x", { method: "GET" })).status).toBe(200));

      const leave = new AbortController();
      const body = { model: "a", prompt: "once", n_predict: -1, ignore_eos: true };
      const call = bed.call("/v1/completions", { body, signal: leave.signal });
      const failed = expect(call).rejects.toThrow();
      // Its metrics are not asked for: each answer of the engine, to any client, delays its look at the connection by a second.
      await until(() => expect(engine.log()).toContain("processing task"), { everyMs: 5 });
      leave.abort();
      await failed;
      await until(() => expect(engine.log()).toMatch(/cancel task.*stop processing/s), { everyMs: 20 });
      const metrics = await (await fetch(`${engine.url}/metrics`)).text();
      expect(metrics).toContain("llamacpp:requests_processing 0");
      expect(await bed.finished("t")).toMatchObject({ status: 0, flags: "DC" });
      expect((await bed.finished("t")).firstByteMs).toBeUndefined();
    },
  );

  it("gets requests as a client sends them, answers as it does directly, and its tokens are counted", async () => {
    await using folder = await temporaryFolder();
    const model = path.join(folder.path, "tiny.gguf");
    await writeTinyGguf(model);
    await using engine = await runLlamaServer(llamaServer ?? "", [
      "-m",
      model,
      "-c",
      "512",
      "-np",
      "1",
      "--no-warmup",
    ]);
    const port = Number(new URL(engine.url).port);
    await using bed = await startEnvoyBed();
    await bed.envoy.apply([
      {
        name: "default/a",
        endpoints: [{ address: "127.0.0.1", port, isHealthy: true }],
        keepsConnections: true,
      },
    ]);
    await until(async () => expect((await bed.call("/v1/models/x", { method: "GET" })).status).toBe(200));

    const chat = {
      model: "a",
      messages: [{ role: "user", content: "hello" }],
      max_tokens: 8,
      temperature: 0,
      seed: 1,
    };
    const ask = async (ticket: string, where: string, body: object) => {
      bed.decisions.respond = ({ headers }) =>
        grant("default/a", {
          "x-metalbridge-ticket": ticket,
          ...(headers["x-metalbridge-stream"] === "true" && { "x-metalbridge-connection": "close" }),
        });
      const [direct, through] = [await send(port, where, { body }), await bed.call(where, { body })];
      expect(through.status, through.text).toBe(200);
      expect(steady(through.text)).toBe(steady(direct.text));
      expect(through.headers["content-type"]).toBe(direct.headers["content-type"]);
      return { finished: await bed.finished(ticket), text: through.text };
    };
    const plain = await ask("plain", "/v1/chat/completions", chat);
    const { usage } = JSON.parse(plain.text) as {
      usage: { prompt_tokens: number; completion_tokens: number };
    };
    expect(plain.finished.tokens).toMatchObject({ in: usage.prompt_tokens, out: usage.completion_tokens });
    const stream = await ask("stream", "/v1/chat/completions", { ...chat, stream: true });
    expect(stream.finished.tokens).toMatchObject({ in: usage.prompt_tokens, out: usage.completion_tokens });
    expect(stream.finished.firstByteMs).toBeDefined();
    const counted = await ask("counted", "/v1/chat/completions", {
      ...chat,
      stream: true,
      stream_options: { include_usage: true },
    });
    expect(counted.finished.tokens).toMatchObject({ in: usage.prompt_tokens, out: usage.completion_tokens });
    const service = await ask("service", "/v1/completions", {
      prompt: "hello",
      max_tokens: 4,
      temperature: 0,
    });
    expect(service.finished.tokens?.out).toBe(4);
  });
});

/**
 * Sends one request after the other, each on the connection of the one before unless the engine has announced that it closes it. A
 * connection that is closed without that rejects the next request.
 */
function oneConnection(url: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const ports = new Set<number | undefined>();
  let isAnnounced = true;
  const send = (where: string, body: object | string, headers: object = {}): Promise<void> =>
    new Promise((resolve, reject) => {
      const content = { "content-type": "application/json", ...headers };
      const call = request(new URL(where, url), { method: "POST", agent, headers: content }, (response) => {
        const { localPort } = response.socket;
        const isKept = ports.has(localPort);
        ports.add(localPort);
        if (!isKept && !isAnnounced) reject(new Error(`${where}: the connection before was closed`));
        isAnnounced = response.headers.connection === "close";
        response.resume().once("end", resolve);
      });
      call.once("error", reject);
      call.end(typeof body === "string" ? body : JSON.stringify(body));
    });
  return { send, count: () => ports.size, [Symbol.dispose]: () => agent.destroy() };
}

/** Without what differs between two equal requests. */
function steady(text: string): string {
  return text
    .replace(/"id":"[^"]*"/g, "")
    .replace(/"created":\d+/g, "")
    .replace(/"timings":\{[^}]*\}/g, "")
    .replace(/"prompt_tokens_details":\{[^}]*\}/g, "");
}
