/** Keys, limits and usage through the real gateway, its Envoy and a real engine. */
import { readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import OpenAI, { type APIError } from "openai";
import { afterAll, beforeAll, expect, it } from "vitest";
import { userJwtHeaders } from "../../gateway/testing/user-jwt.ts";
import {
  GATEWAY_HEALTH_PORT,
  type RequestQueue,
  requestQueuesSchema,
} from "../../src/gateway/request-queues.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { model, service } from "../bed/manifests.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { type System, startSystem } from "../bed/system.ts";
import { until } from "../bed/until.ts";
import { runProgram } from "../cli/program.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { type StartedGateway, startGateway, whyNoGateway } from "./started-gateway.ts";

const MINUTE = 60_000;
const USER_JWT_SECRET = "signs-users";

describeUnless(whyNoNodeNetwork() ?? whyNoGateway, "keys of the gateway", () => {
  let on: System;
  let gateway: StartedGateway;

  beforeAll(async () => {
    on = await startSystem({ agents: [{ hostName: "mac-1", config: { disk: { reserve: 0 } } }] });
    const file = path.join(on.farm.modelsDir, "tiny.gguf");
    await writeTinyGguf(file, { endless: true, layers: 2, embeddingSize: 64, contextLength: 8192 });
    const slow = path.join(on.farm.modelsDir, "slow.gguf");
    await writeTinyGguf(slow, { endless: true, layers: 8, embeddingSize: 256, contextLength: 8192 });
    await on.apply(
      model("single", slow),
      service("single", "mac-1", { contextSize: 4096 }),
      model("chat", file),
      service("chat", "mac-1", { contextSize: 4096, parallelSlots: 4, rollout: { drainSeconds: 5 } }),
    );
    // An API server proxies to no loopback address.
    const health = { address: on.network.hostAddress, port: GATEWAY_HEALTH_PORT };
    const secretFile = path.join(on.farm.dir, "user-jwt-secret");
    writeFileSync(secretFile, USER_JWT_SECRET);
    [gateway] = await Promise.all([
      startGateway(on.cluster.kubeconfig, ["--user-jwt-secret-file", secretFile], health),
      on.services.untilReady("chat"),
    ]);
  }, 4 * MINUTE);

  afterAll(async () => {
    await gateway?.[Symbol.asyncDispose]();
    await on?.[Symbol.asyncDispose]();
  });

  const run = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await runProgram(args, { kubeconfig: on.cluster.kubeconfig });
    if (code !== 0) throw new Error(stderr);
    return stdout.trim();
  };
  const clientOf = (apiKey: string) => new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey, maxRetries: 0 });
  const ask = (apiKey: string, max_tokens = 4) =>
    clientOf(apiKey).chat.completions.create({
      model: "chat",
      messages: [{ role: "user", content: "Hi" }],
      max_tokens,
    });
  const refusal = (apiKey: string): Promise<APIError> =>
    ask(apiKey).then(
      () => Promise.reject(new Error("the request was admitted")),
      (error: APIError) => error,
    );

  const addGatewayPod = async (name: string): Promise<void> => {
    const { kubectl } = on.cluster;
    const labels = { "app.kubernetes.io/name": "metalbridge", "app.kubernetes.io/component": "gateway" };
    const spec = {
      automountServiceAccountToken: false,
      containers: [{ name: "gateway", image: "example/gateway" }],
    };
    const metadata = { name, namespace: "metalbridge-system", labels };
    await until(() => on.apply({ apiVersion: "v1", kind: "Pod", metadata, spec }));
    const podIP = on.network.hostAddress;
    const status = JSON.stringify({ status: { phase: "Running", podIP, podIPs: [{ ip: podIP }] } });
    await kubectl(["patch", "pod", name, "-n", metadata.namespace, "--subresource=status", "-p", status]);
  };

  it("needs a key from the first one on, and refuses a revoked one at once, in the dialect of the client", async () => {
    expect((await ask("none")).usage?.completion_tokens).toBe(4);
    const key = await run("key", "create", "ada", "--services", "default/chat");
    await until(async () => expect((await refusal("none")).status).toBe(401));
    expect((await ask(key)).usage?.completion_tokens).toBe(4);
    const other = await run("key", "create", "bob", "--namespaces", "elsewhere");
    await until(async () => expect((await refusal(other)).status).toBe(404));
    expect((await clientOf(other).models.list()).data).toEqual([]);
    const anthropic = await fetch(`${gateway.url}/v1/messages`, {
      method: "POST",
      headers: { "x-api-key": "mbk_unknown", "content-type": "application/json" },
      body: JSON.stringify({ model: "chat", max_tokens: 1, messages: [] }),
    });
    expect([anthropic.status, await anthropic.json()]).toEqual([
      401,
      expect.objectContaining({
        type: "error",
        error: { type: "authentication_error", message: expect.stringMatching(/^Unknown API key\./) },
      }),
    ]);
    await run("key", "revoke", "ada");
    await until(async () => expect((await refusal(key)).message).toMatch(/was revoked/));
  });

  it("refuses bad input in the dialect of the client, and mentions no other tenant", async () => {
    const key = await run("key", "create", "stranger", "--namespaces", "elsewhere");
    await until(async () => expect((await clientOf(key).models.list()).data).toEqual([]));
    const send = async (path: string, body: string | FormData, type?: string) => {
      const headers = { authorization: `Bearer ${key}`, ...(type !== undefined && { "content-type": type }) };
      const response = await fetch(`${gateway.url}${path}`, { method: "POST", headers, body });
      return { status: response.status, text: await response.text() };
    };
    const form = new FormData();
    form.append("language", "en");
    const named = new FormData();
    named.append("model", "chat");
    const json = "application/json";
    const cases = [
      ["/v1/chat/completions", '{"messages":[]}', json, 400, /"code":"model_required"/],
      ["/v1/chat/completions", "{", json, 400, /"code":"invalid_json"/],
      ["/v1/chat/completions", '{"model":"chat"}', json, 404, /"code":"model_not_found"/],
      ["/v1/chat/completions", '{"model":"default/chat"}', json, 404, /"code":"model_not_found"/],
      [
        "/v1/chat/completions",
        '{"model":"elsewhere/x","model":"single"}',
        json,
        404,
        /"code":"model_not_found"/,
      ],
      ["/s/default/chat/v1/chat/completions", '{"model":"chat"}', json, 404, /"code":"model_not_found"/],
      ["/v1/messages", '{"model":"chat"}', json, 404, /"type":"not_found_error"/],
      ["/v1/messages", "[]", json, 400, /"type":"invalid_request_error"/],
      ["/api/chat", '{"model":"chat"}', json, 404, /^\{"error":"/],
      ["/v1/audio/transcriptions", form, undefined, 400, /"code":"model_required"/],
      ["/v1/audio/transcriptions", named, undefined, 404, /"code":"model_not_found"/],
      ["/v1/fine_tuning/jobs", "{}", json, 404, /"code":"unknown_path"/],
    ] as const;
    for (const [path, body, type, status, text] of cases) {
      const answer = await send(path, body, type);
      expect(answer, path).toEqual({ status, text: expect.stringMatching(text) });
      expect(answer.text).not.toMatch(/mac-1|llamacpp|not allowed|permission/);
    }
  });

  it("ignores a Secret that is no key, and says so in its metrics", async () => {
    const name = "broken";
    const labels = { "metalbridge.dev/gateway-key": "true" };
    const metadata = { name, namespace: "metalbridge-system", labels };
    await on.apply({ apiVersion: "v1", kind: "Secret", metadata, stringData: { "key.json": "mbk_plain" } });
    await until(async () =>
      expect(await gateway.metrics()).toMatch(/^metalbridge_gateway_keys\{.*invalid.*\} 1$/m),
    );
    expect((await refusal("mbk_plain")).status).toBe(401);
    expect(gateway.part().log()).toMatch(/key\.json is not JSON/);
    expect(gateway.part().log()).not.toContain("mbk_plain");
  });

  it("enforces requests per minute, concurrent requests and the budget of a day, each with its own answer", async () => {
    const rate = await run("key", "create", "rate", "--all", "--requests-per-minute", "2");
    await until(() => ask(rate));
    await ask(rate);
    const limited = await refusal(rate);
    expect([limited.status, limited.code]).toEqual([429, "rate_limit_exceeded"]);
    expect(Number(limited.headers?.get("retry-after"))).toBeGreaterThan(0);
    expect(limited.message).toMatch(/limit of 2 requests per minute/);

    const single = await run("key", "create", "single", "--all", "--concurrent-requests", "1");
    const stream = await until(() =>
      clientOf(single).chat.completions.create({
        ...{ model: "chat", messages: [{ role: "user", content: "Hi" }], stream: true, max_tokens: 3_000 },
      }),
    );
    expect((await refusal(single)).message).toMatch(/limit of 1 concurrent requests/);
    stream.controller.abort();
    await until(async () => expect((await ask(single)).usage?.completion_tokens).toBe(4));

    const budget = await run("key", "create", "budget", "--all", "--tokens-per-day", "20");
    await until(() => ask(budget, 30));
    const spent = await until(() => refusal(budget));
    expect([spent.status, spent.headers?.get("x-should-retry")]).toEqual([429, "false"]);
    expect(spent.message).toMatch(/limit of 20 tokens per day \(UTC\)/);
  });

  it("records usage by key and host, estimated where the client left, and keeps it across a restart", async () => {
    expect(await gateway.metrics()).toMatch(
      /metalbridge_gateway_tokens_total\{key="budget",namespace="default",service="chat",host="mac-1",type="output"\} 3\d/,
    );
    await gateway.part().kill("SIGTERM");
    type Line = { key: string; host: string; requests: number; tokensOut: number; estimatedRequests: number };
    const usage = async (): Promise<readonly Line[]> =>
      JSON.parse(await run("usage", "--by", "key,host", "-o", "json"));
    const lineOf = (lines: readonly Line[], key: string) => lines.find((line) => line.key === key);
    const before = await usage();
    const { host, tokensOut } = lineOf(before, "budget") ?? {};
    // A request before the end of the first one was counted may have been admitted, too.
    expect([host, tokensOut]).toEqual(["mac-1", expect.toSatisfy((tokens: number) => tokens >= 30)]);
    expect(lineOf(before, "rate")).toMatchObject({ requests: 2, tokensOut: 8, estimatedRequests: 0 });
    expect(lineOf(before, "single")).toMatchObject({ estimatedRequests: 1 });
    await gateway.restart();
    const budget = await run("key", "rotate", "budget");
    await until(async () => expect((await refusal(budget)).message).toMatch(/tokens per day/));
  });

  it("counts requests exactly once although the gateway is killed before it has recorded them", async () => {
    const key = await run("key", "create", "exact", "--all");
    await until(async () => expect((await ask(key)).usage?.completion_tokens).toBe(4));
    for (let count = 0; count < 5; count += 1) await ask(key);
    await until(async () =>
      expect(await gateway.metrics()).toMatch(/_tokens_total\{key="exact",.*type="output"\} 24$/m),
    );
    // The process has noted that it has read these lines, and no record has them yet.
    await until(() => {
      const { offset } = JSON.parse(readFileSync(path.join(gateway.dir, "access-log-position.json"), "utf8"));
      expect(offset).toBe(statSync(path.join(gateway.dir, "access.log")).size);
    });
    await gateway.part().kill("SIGKILL");
    // On a busy machine the restart may take longer than Envoy asks; a refused request is not counted.
    const patient = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: key, maxRetries: 20 });
    const late = () =>
      patient.chat.completions.create({
        model: "chat",
        messages: [{ role: "user", content: "Hi" }],
        max_tokens: 4,
      });
    await Promise.all([late(), late(), gateway.restart()]);
    await gateway.part().kill("SIGTERM");
    const lines: { key: string; requests: number; tokensOut: number }[] = JSON.parse(
      await run("usage", "--by", "key", "-o", "json"),
    );
    expect(lines.find((line) => line.key === "exact")).toMatchObject({ requests: 8, tokensOut: 32 });
    await gateway.restart();
  });

  it("lets a stream of a revoked key finish, and refuses its next request", async () => {
    const key = await run("key", "create", "leaver", "--all");
    await until(async () => expect((await ask(key)).usage?.completion_tokens).toBe(4));
    const stream = await clientOf(key).chat.completions.create({
      model: "single",
      messages: [{ role: "user", content: "Hi" }],
      stream: true,
      max_tokens: 400,
    });
    let tokens = 0;
    for await (const { choices } of stream) {
      if (choices[0]?.delta.content) tokens += 1;
      if (tokens === 5) await run("key", "revoke", "leaver");
    }
    expect(tokens).toBeGreaterThan(300);
    expect((await refusal(key)).status).toBe(401);
  });

  it("shows in top who waits and at which position, from an address and from pods through the API server", async () => {
    const [one, many] = [
      await run("key", "create", "waits-once", "--all"),
      await run("key", "create", "waits-often", "--all"),
    ];
    await until(async () => expect((await ask(many)).usage?.completion_tokens).toBe(4));
    // No host has its replica, so that its requests wait as long as the test takes.
    await on.apply(model("later", path.join(on.farm.modelsDir, "tiny.gguf")), service("later", "mac-9"));
    const leaving = new AbortController();
    const send = (apiKey: string) =>
      clientOf(apiKey).chat.completions.create(
        { model: "later", messages: [{ role: "user", content: "Hi" }] },
        { signal: leaving.signal },
      );
    const isListed = async () => (await clientOf(one).models.list()).data.some(({ id }) => id === "later");
    await until(async () => expect(await isListed()).toBe(true));
    const waiting = [many, many, many, one].map((key) => send(key).catch(() => undefined));
    type Top = { requests: { gateways: number; answered: number; queues: RequestQueue[] } };
    const top = async (...args: string[]): Promise<Top> =>
      JSON.parse(await run("top", "-o", "json", ...args));
    const queueOf = ({ requests }: Top, name: string) =>
      requests.queues.find(({ service }) => service === `default/${name}`);
    await until(async () =>
      expect(queueOf(await top("--gateway", gateway.health), "later")).toEqual({
        ...{ service: "default/later", waiting: 4, slots: { used: 0, total: 0 } },
        longestWaitSeconds: expect.any(Number),
        keys: expect.arrayContaining([
          expect.objectContaining({ key: "waits-often", waiting: 3 }),
          expect.objectContaining({ key: "waits-once", waiting: 1 }),
        ]),
      }),
    );
    expect((await top("--gateway", gateway.health, "-n", "other")).requests.queues).toEqual([]);
    expect((await top()).requests).toEqual({ gateways: 0, answered: 0, queues: [] });

    for (const name of ["gateway-1", "gateway-2"]) await addGatewayPod(name);
    const both = await top();
    expect(both.requests).toMatchObject({ gateways: 2, answered: 2 });
    // Both pods have the address of the one gateway.
    expect(queueOf(both, "later")).toMatchObject({ waiting: 8 });
    expect(queueOf(both, "chat")?.slots.total).toBe(8);
    const text = await run("top");
    expect(text).toMatch(/^default\/later +0\/0 +8 +\d+(\.\d)?s$/m);
    expect(text).toMatch(/^default\/later +waits-once +2 +[1-4] +\d+(\.\d)?s$/m);

    leaving.abort();
    await Promise.all(waiting);
    await until(async () => expect(queueOf(await top(), "later")).toMatchObject({ waiting: 0, keys: [] }));
  });

  it("gives two keys of equal weight equal turns, whether one or twenty clients wait behind them", async () => {
    const [one, many] = [
      await run("key", "create", "one", "--all"),
      await run("key", "create", "many", "--all"),
    ];
    await until(async () => expect((await ask(many)).usage?.completion_tokens).toBe(4));
    const served = { one: 0, many: 0 };
    let isDone = false;
    const loop = async (name: "one" | "many", key: string): Promise<void> => {
      while (!isDone) {
        await clientOf(key)
          .chat.completions.create({
            model: "single",
            messages: [{ role: "user", content: "Hi" }],
            max_tokens: 100,
          })
          .catch(() => undefined);
        if (!isDone) served[name] += 1;
        isDone ||= served.one + served.many >= 40;
      }
    };
    await Promise.all([loop("one", one), ...Array.from({ length: 20 }, () => loop("many", many))]);
    expect(Math.abs(served.one - served.many), JSON.stringify(served)).toBeLessThanOrEqual(12);
  });

  it("gives two people behind one key equal turns, known by the header that Open WebUI signs", async () => {
    const key = await run("key", "create", "people", "--all");
    await until(async () => expect((await ask(key)).usage?.completion_tokens).toBe(4));
    const served: string[] = [];
    const send = async (sub: string): Promise<void> => {
      const request = { messages: [{ role: "user" as const, content: "Hi" }], max_tokens: 150 };
      const headers = userJwtHeaders({ sub, iss: "open-webui" }, USER_JWT_SECRET);
      await clientOf(key).chat.completions.create({ model: "single", ...request }, { headers });
      served.push(sub);
    };
    const waiting = async (): Promise<number> => {
      const { queues } = requestQueuesSchema.parse(await (await fetch(`${gateway.health}/queues`)).json());
      return queues.find(({ service }) => service === "default/single")?.waiting ?? 0;
    };
    const ann = Array.from({ length: 5 }, () => send("ann"));
    await until(async () => expect(await waiting()).toBe(4), { everyMs: 10 });
    await Promise.all([...ann, send("bob")]);
    expect(served.indexOf("bob"), served.join(", ")).toBeLessThanOrEqual(2);
  });
});
