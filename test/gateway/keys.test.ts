/** Keys, limits and usage through the real gateway, its Envoy and a real engine. */
import { readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import OpenAI, { type APIError } from "openai";
import { afterAll, afterEach, beforeAll, expect, it, onTestFinished } from "vitest";
import { userJwtHeaders } from "../../gateway/testing/user-jwt.ts";
import { INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import {
  GATEWAY_HEALTH_PORT,
  type RequestQueue,
  requestQueuesSchema,
} from "../../src/gateway/request-queues.ts";
import { ONE_THREAD } from "../bed/agent.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { model, service } from "../bed/manifests.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { send } from "../bed/signal.ts";
import { type System, startSystem } from "../bed/system.ts";
import { until } from "../bed/until.ts";
import { runVerb } from "../cli/program.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { type StartedGateway, startGateway, whyNoGateway } from "./started-gateway.ts";

const MINUTE = 60_000;
const USER_JWT_SECRET = "signs-users";
/** The agent does not notice that a test stops the engine's process for seconds. */
const PATIENT_PROBES = { liveness: { timeoutSeconds: 600 } };

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
      service("single", "mac-1", { contextSize: 4096, probeOverrides: PATIENT_PROBES }),
      model("chat", file),
      service("chat", "mac-1", {
        contextSize: 4096,
        parallelSlots: 4,
        // With a shifting context, a request without a limit of tokens never ends.
        extraArgs: [...ONE_THREAD, "--context-shift"],
        rollout: { drainSeconds: 5 },
      }),
    );
    // An API server proxies to no loopback address.
    const health = { address: on.network.hostAddress, port: GATEWAY_HEALTH_PORT };
    const secretFile = path.join(on.farm.dir, "user-jwt-secret");
    writeFileSync(secretFile, USER_JWT_SECRET);
    [gateway] = await Promise.all([
      startGateway(on.cluster.kubeconfig, ["--user-jwt-secret-file", secretFile], health),
      on.services.untilReady("chat"),
      on.services.untilReady("single"),
    ]);
  }, 4 * MINUTE);

  afterAll(async () => {
    await gateway?.[Symbol.asyncDispose]();
    await on?.[Symbol.asyncDispose]();
  });

  afterEach(async () => {
    if (gateway?.part().isRunning() === false) await gateway.restart();
  });

  const run = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await runVerb(args, { kubeconfig: on.cluster.kubeconfig });
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
  const endlessStream = async (apiKey: string) => {
    const stream = await clientOf(apiKey).chat.completions.create({
      model: "chat",
      messages: [{ role: "user", content: "Hi" }],
      stream: true,
    });
    onTestFinished(() => stream.controller.abort());
    return stream;
  };
  /** How many tokens the service with one slot has sent when its stream ends. */
  const streamedTokens = async (apiKey: string, max_tokens: number) => {
    const stream = await clientOf(apiKey).chat.completions.create({
      model: "single",
      messages: [{ role: "user", content: "Hi" }],
      stream: true,
      stream_options: { include_usage: true },
      max_tokens,
    });
    let tokens: number | undefined;
    for await (const { usage } of stream) tokens = usage?.completion_tokens ?? tokens;
    return tokens;
  };
  const refusal = (apiKey: string): Promise<APIError> =>
    ask(apiKey).then(
      () => Promise.reject(new Error("the request was admitted")),
      (error: APIError) => error,
    );

  /** Stops the engine of a service, so that its requests stay in flight, until the test calls the result or ends. */
  const stopEngine = async (name: string): Promise<() => void> => {
    const [replica] = await on.farm.objects.list(INFERENCE_REPLICAS, `metalbridge.dev/service=${name}`);
    const { pid } = replica.status;
    const resume = () => void send(pid, "SIGCONT");
    process.kill(pid, "SIGSTOP");
    onTestFinished(resume);
    return resume;
  };
  const queueOf = async (name: string): Promise<RequestQueue | undefined> => {
    const { queues } = requestQueuesSchema.parse(await (await fetch(`${gateway.health}/queues`)).json());
    return queues.find(({ service }) => service === `default/${name}`);
  };
  /** Its first request has been answered. */
  const createKey = async (name: string): Promise<string> => {
    const key = await run("key", "create", name, "--yes", "--all");
    await until(async () => expect((await ask(key)).usage?.completion_tokens).toBe(4));
    return key;
  };
  /** Sends a request to the service with one slot, and resolves with `name` once it is answered. */
  const sender =
    (name: string, key: string, max_tokens: number, headers = {}) =>
    async () => {
      const request = { messages: [{ role: "user" as const, content: "Hi" }], max_tokens };
      await clientOf(key).chat.completions.create({ model: "single", ...request }, { headers });
      return name;
    };
  /** What `sends` resolve with in the order of their answers. Each is queued behind those before it while the engine is stopped. */
  const servedInTurn = async (sends: readonly (() => Promise<string>)[]): Promise<readonly string[]> => {
    const served: string[] = [];
    const answers: Promise<unknown>[] = [];
    const resume = await stopEngine("single");
    for (const [index, sendNext] of sends.entries()) {
      answers.push(sendNext().then((name) => served.push(name)));
      await untilQueued("single", index);
    }
    resume();
    await Promise.all(answers);
    return served;
  };
  /** `waiting`: requests in the queue behind the one that the engine has got. */
  const untilQueued = (name: string, waiting: number) =>
    until(async () => expect(await queueOf(name)).toMatchObject({ waiting, slots: { used: 1 } }));

  const addGatewayPod = async (name: string): Promise<void> => {
    const labels = { "app.kubernetes.io/name": "metalbridge", "app.kubernetes.io/component": "gateway" };
    const spec = {
      automountServiceAccountToken: false,
      containers: [{ name: "gateway", image: "example/gateway" }],
    };
    const metadata = { name, namespace: "metalbridge-system", labels };
    await until(() => on.apply({ apiVersion: "v1", kind: "Pod", metadata, spec }));
    const podIP = on.network.hostAddress;
    const status = { phase: "Running", podIP, podIPs: [{ ip: podIP }] };
    await on.farm.objects.patch(metadata.namespace, `pod/${name}`, { status }, "status");
  };

  it("needs a key from the first one on, and refuses a revoked one at once, in the dialect of the client", async () => {
    expect((await ask("none")).usage?.completion_tokens).toBe(4);
    const key = await run("key", "create", "ada", "--yes", "--services", "default/chat");
    await until(async () => expect((await refusal("none")).status).toBe(401));
    expect((await ask(key)).usage?.completion_tokens).toBe(4);
    const other = await run("key", "create", "bob", "--yes", "--namespaces", "elsewhere");
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
    const key = await run("key", "create", "stranger", "--yes", "--namespaces", "elsewhere");
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
    const rate = await run("key", "create", "rate", "--yes", "--all", "--requests-per-minute", "2");
    await until(() => ask(rate));
    await ask(rate);
    const limited = await refusal(rate);
    expect([limited.status, limited.code]).toEqual([429, "rate_limit_exceeded"]);
    expect(Number(limited.headers?.get("retry-after"))).toBeGreaterThan(0);
    expect(limited.message).toMatch(/limit of 2 requests per minute/);

    const single = await run("key", "create", "single", "--yes", "--all", "--concurrent-requests", "1");
    const stream = await until(() => endlessStream(single));
    expect((await refusal(single)).message).toMatch(/limit of 1 concurrent requests/);
    stream.controller.abort();
    await until(async () => expect((await ask(single)).usage?.completion_tokens).toBe(4));
    // One request after the other is never more than one.
    for (let count = 0; count < 20; count += 1) await ask(single);
    // Requests that Envoy takes with it have no line in its log.
    await until(() => endlessStream(single));
    process.kill(gateway.envoyPid(), "SIGKILL");
    await until(async () => expect((await ask(single)).usage?.completion_tokens).toBe(4));

    const budget = await run("key", "create", "budget", "--yes", "--all", "--tokens-per-day", "20");
    await until(() => ask(budget, 30));
    const spent = await until(() => refusal(budget));
    expect([spent.status, spent.headers?.get("x-should-retry")]).toEqual([429, "false"]);
    expect(spent.message).toMatch(/limit of 20 tokens per day \(UTC\)/);
  });

  it("records usage by key and host, estimated where the client left, and keeps it across a restart", async () => {
    const spender = await run("key", "create", "spender", "--yes", "--all", "--tokens-per-day", "20");
    await until(() => ask(spender, 30));
    const leaver = await run("key", "create", "leaves", "--yes", "--all");
    const stream = await until(() => endlessStream(leaver));
    stream.controller.abort();
    const total = (key: string, tokens: string) =>
      `metalbridge_gateway_tokens_total{key="${key}",namespace="default",service="chat",host="mac-1",type="output"} ${tokens}`;
    await until(async () => {
      const metrics = (await gateway.metrics()).split("\n");
      expect(metrics).toContain(total("spender", "30"));
      expect(metrics).toContainEqual(expect.stringContaining(total("leaves", "")));
    });
    await gateway.part().kill("SIGTERM");
    type Line = { key: string; host: string; requests: number; tokensOut: number; estimatedRequests: number };
    const lines: readonly Line[] = JSON.parse(await run("usage", "--by", "key,host", "-o", "json"));
    const lineOf = (key: string) => lines.find((line) => line.key === key);
    const host = "mac-1";
    expect(lineOf("spender")).toMatchObject({ host, requests: 1, tokensOut: 30, estimatedRequests: 0 });
    expect(lineOf("leaves")).toMatchObject({ host, requests: 1, estimatedRequests: 1 });
    await gateway.restart();
    const rotated = await run("key", "rotate", "spender");
    await until(async () => expect((await refusal(rotated)).message).toMatch(/tokens per day/));
  });

  it("counts requests exactly once although the gateway is killed before it has recorded them", async () => {
    const key = await createKey("exact");
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
    const key = await createKey("leaver");
    const resume = await stopEngine("single");
    const answer = streamedTokens(key, 40);
    await untilQueued("single", 0);
    await run("key", "revoke", "leaver");
    await until(async () => expect((await refusal(key)).status).toBe(401));
    resume();
    expect(await answer).toBe(40);
  });

  it("shows in top who waits and at which position, from an address and from pods through the API server", async () => {
    const [one, many] = [await createKey("waits-once"), await createKey("waits-often")];
    // No host has its replica, so that its requests wait as long as the test takes.
    await on.apply(model("later", path.join(on.farm.modelsDir, "tiny.gguf")), service("later", "mac-9"));
    const leaving = new AbortController();
    onTestFinished(() => leaving.abort());
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
    const shown = ({ requests }: Top, name: string) =>
      requests.queues.find(({ service }) => service === `default/${name}`);
    await until(async () =>
      expect(shown(await top("--gateway", gateway.health), "later")).toEqual({
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
    expect(shown(both, "later")).toMatchObject({ waiting: 8 });
    expect(shown(both, "chat")?.slots.total).toBe(8);
    const text = await run("top");
    expect(text).toMatch(/^default\/later +0\/0 +8 +\d+(\.\d)?s$/m);
    expect(text).toMatch(/^default\/later +waits-once +2 +[1-4] +\d+(\.\d)?s$/m);

    leaving.abort();
    await Promise.all(waiting);
    await until(async () => expect(shown(await top(), "later")).toMatchObject({ waiting: 0, keys: [] }));
  });

  it("gives two keys of equal weight equal time, whether one or twenty requests wait behind them", async () => {
    const [first, many, one] = [await createKey("first"), await createKey("many"), await createKey("one")];
    const served = await servedInTurn([
      sender("first", first, 4),
      ...Array.from({ length: 20 }, () => sender("many", many, 100)),
      ...Array.from({ length: 5 }, () => sender("one", one, 4)),
    ]);
    expect(served.lastIndexOf("one"), served.join(", ")).toBeLessThan(13);
  });

  it("gives two people behind one key equal time, known by the header that Open WebUI signs", async () => {
    const key = await createKey("people");
    const senderAs = (sub: string) =>
      sender(sub, key, 40, userJwtHeaders({ sub, iss: "open-webui" }, USER_JWT_SECRET));
    const served = await servedInTurn([...Array.from({ length: 5 }, () => senderAs("ann")), senderAs("bob")]);
    expect(served.indexOf("bob"), served.join(", ")).toBeLessThanOrEqual(2);
  });
});
