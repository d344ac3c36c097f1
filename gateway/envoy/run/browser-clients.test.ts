/** Official clients in a web page of another origin: a real browser, the real Envoy and the real llama-server. */
import path from "node:path";
import { build } from "esbuild";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { packageRoot } from "../../../local/package-root.ts";
import { openBrowser, whyNoBrowser } from "../../../test/bed/console/browser.ts";
import { describeUnless } from "../../../test/bed/describe-unless.ts";
import { whyNoEnvoy } from "../../../test/bed/envoy.ts";
import { until } from "../../../test/bed/until.ts";
import { findLlamaServer } from "../../../test/fixtures/llama-server.ts";
import { runLlamaServer } from "../../../test/fixtures/run-llama-server.ts";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { writeTinyGguf } from "../../../test/fixtures/tiny-gguf.ts";
import { type EnvoyBed, grant, startEngine, startEnvoyBed } from "./fixtures/envoy-bed.ts";

const llamaServer = findLlamaServer();
const whyNot = llamaServer === undefined ? "needs llama-server: npm run setup" : undefined;
const CLIENTS = `
  import OpenAI from "openai";
  import Anthropic from "@anthropic-ai/sdk";
  const options = { apiKey: "x", maxRetries: 0, dangerouslyAllowBrowser: true };
  window.connect = (url) => {
    window.openai = new OpenAI({ ...options, baseURL: url + "/v1", defaultHeaders: { "x-session-id": "7" } });
    window.anthropic = new Anthropic({ ...options, baseURL: url });
  };
  window.failure = ({ status, message, headers }) => ({ status, message, wait: headers?.get("retry-after") });
`;

describeUnless(whyNoBrowser ?? whyNoEnvoy ?? whyNot, "official clients in a web page", () => {
  const stack = new AsyncDisposableStack();
  let bed: EnvoyBed;
  let page: Page;

  beforeAll(async () => {
    const folder = stack.use(await temporaryFolder());
    const model = path.join(folder.path, "tiny.gguf");
    await writeTinyGguf(model, { endless: true });
    const engine = stack.use(
      await runLlamaServer(llamaServer ?? "", ["-m", model, "-c", "512", "--jinja", "--no-warmup"]),
    );
    const html = () => ({
      headers: { "content-type": "text/html" },
      body: "<!doctype html><title>Page</title>",
    });
    const site = stack.use(await startEngine(html));
    const origin = `http://127.0.0.1:${site.port}`;
    const port = Number(new URL(engine.url).port);
    const clusters = [{ name: "default/a", endpoints: [{ address: "127.0.0.1", port, isHealthy: true }] }];
    bed = stack.use(await startEnvoyBed({ cors: { allowOrigins: [origin] }, clusters }));
    await until(async () => expect((await bed.call("/v1/models/x", { method: "GET" })).status).toBe(200));
    const stdin = { contents: CLIENTS, resolveDir: packageRoot() };
    const { outputFiles } = await build({ stdin, bundle: true, write: false, format: "iife" });
    const browser = await openBrowser();
    stack.defer(() => browser.close());
    page = await browser.newPage();
    await page.goto(origin);
    await page.addScriptTag({ content: outputFiles[0]?.text ?? "" });
    await page.evaluate(`connect("http://127.0.0.1:${bed.port}")`);
  });

  afterAll(() => stack.disposeAsync());

  const messages = '[{ role: "user", content: "Hi" }]';
  const inPage = <T>(work: string) => page.evaluate<T>(`(async () => { ${work} })()`);

  it("complete, stream and cancel", async () => {
    const seen = await inPage<Record<string, unknown>>(`
      const chat = { model: "a", messages: ${messages}, max_tokens: 4 };
      const plain = await openai.chat.completions.create(chat);
      let parts = 0;
      for await (const part of await openai.chat.completions.create({ ...chat, stream: true })) parts += 1;
      const message = await anthropic.messages.create(chat);
      const stream = anthropic.messages.stream(chat);
      const events = new Set();
      for await (const { type } of stream) events.add(type);
      const endless = await openai.chat.completions.create({ ...chat, max_tokens: 400, stream: true });
      for await (const part of endless) break;
      return { tokens: plain.usage.completion_tokens, parts, role: message.role,
        isStopped: events.has("message_stop"), isCancelled: endless.controller.signal.aborted };
    `);
    expect(seen).toMatchObject({
      tokens: 4,
      role: "assistant",
      isStopped: true,
      isCancelled: true,
    });
    expect(seen.parts).toBeGreaterThan(3);
  });

  it("read the status, the message and the headers of refusals", async () => {
    bed.decisions.respond = () => ({
      status: 429,
      headers: { "content-type": "application/json", "retry-after": "7" },
      body: JSON.stringify({ error: { message: "too many requests", type: "rate_limit_error" } }),
    });
    const work = `const refused = [];
      for (const one of [openai.chat.completions, anthropic.messages])
        await one.create({ model: "a", messages: ${messages}, max_tokens: 1 }).catch((error) => refused.push(failure(error)));
      return refused;`;
    const refused = await inPage<readonly object[]>(work);
    const expected = { status: 429, message: expect.stringContaining("too many requests"), wait: "7" };
    expect(refused).toEqual([expected, expected]);
    bed.decisions.respond = () => grant("default/a");
  });
});
