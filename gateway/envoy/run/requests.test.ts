/** Requests through the real Envoy: routing, headers, streams, and usage. */

import { connect } from "node:net";
import fc from "fast-check";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { describeUnless } from "../../../test/bed/describe-unless.ts";
import { whyNoEnvoy } from "../../../test/bed/envoy.ts";
import { until } from "../../../test/bed/until.ts";
import {
  closedPort,
  type Engine,
  type EnvoyBed,
  grant,
  JSON_TYPE,
  startEngine,
  startEnvoyBed,
  type TestResponse,
  type TestServer,
} from "./fixtures/envoy-bed.ts";

const MIB = 1 << 20;
/** The connection is closed instead of a response. */
const RESET = { status: 0 };
async function* diesLater() {
  yield "{";
  throw new Error("the engine dies");
}

describeUnless(whyNoEnvoy, "requests through Envoy", () => {
  let bed: EnvoyBed;
  let first: Engine;
  let second: Engine;
  let offPort: number;

  const answered: { readonly id: string; readonly status: number }[] = [];
  const untilAnswered = (id: string) =>
    until(() => expect(answered.map((one) => one.id)).toContain(id), { everyMs: 5 });

  beforeAll(async () => {
    [bed, first, second, offPort] = await Promise.all([
      startEnvoyBed({
        limits: { maxBodyBytes: 4 * MIB },
        onAnswered: (id, status) => void answered.push({ id, status }),
      }),
      startEngine(),
      startEngine(),
      closedPort(),
    ]);
    await bed.envoy.apply([
      { name: "default/a", endpoints: [first, second], slowStartMs: 0 },
      { name: "default/kept", endpoints: [first], slowStartMs: 0, keepsConnections: true },
      { name: "default/off", endpoints: [{ address: "127.0.0.1", port: offPort, isHealthy: true }] },
      {
        name: "default/half",
        endpoints: [{ ...first }, { address: "127.0.0.1", port: offPort, isHealthy: true }],
      },
      { name: "default/sick", endpoints: [{ address: "127.0.0.1", port: first.port, isHealthy: false }] },
      { name: "default/none", endpoints: [] },
      {
        name: "default/named",
        endpoints: [
          { ...first, host: "mac-1" },
          { address: "127.0.0.1", port: offPort, host: "mac-2", isHealthy: true },
        ],
      },
    ]);
    await until(async () => expect((await bed.call("/v1/completions", { body: {} })).status).toBe(200), {
      everyMs: 10,
    });
  });

  beforeEach(() => {
    bed.decisions.respond = () => grant("default/a");
    for (const server of [bed.decisions, first, second]) server.received.length = 0;
    for (const engine of [first, second]) engine.respond = () => ({ headers: JSON_TYPE, body: "{}" });
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await Promise.all([first, second].map((engine) => engine[Symbol.asyncDispose]()));
  });

  it("reports each answered request once, with its status, and none that was refused", async () => {
    const ask = async (decision: TestResponse): Promise<string> => {
      bed.decisions.respond = () => decision;
      const { headers } = await bed.call("/v1/completions", { body: { model: "a" } });
      return String(headers["x-request-id"]);
    };
    const served = await ask(grant("default/a"));
    const refused = await ask({ status: 403 });
    const failed = await ask(grant("default/off"));
    await untilAnswered(failed);
    expect(answered.filter(({ id }) => [served, refused, failed].includes(id))).toEqual([
      { id: served, status: 200 },
      { id: failed, status: 503 },
    ]);
  });

  it("asks an engine that keeps connections on open ones, and every other on one connection per request", async () => {
    const connections = async (cluster: string): Promise<number> => {
      bed.decisions.respond = () => grant(cluster);
      for (const server of [first, second]) server.received.length = 0;
      for (let count = 0; count < 8; count += 1) await bed.chat();
      return new Set([first, second].flatMap(({ received }) => received.map(({ clientPort }) => clientPort)))
        .size;
    };
    expect(await connections("default/a")).toBe(8);
    // One per worker of Envoy at most.
    expect(await connections("default/kept")).toBeLessThan(8);
  });

  it("asks a kept engine to close the connection where the decision says so, and uses it no more", async () => {
    const ask = async (more: Readonly<Record<string, string>>) => {
      bed.decisions.respond = () => grant("default/kept", more);
      await bed.chat();
      const { headers, clientPort } = first.received.at(-1) ?? {};
      return { connection: headers?.connection, clientPort };
    };
    const closed = await ask({ "x-metalbridge-connection": "close" });
    const after = await ask({});
    expect([closed.connection, after.connection]).toEqual(["close", undefined]);
    expect(after.clientPort).not.toBe(closed.clientPort);
  });

  const chat = (
    body: unknown,
    headers: Readonly<Record<string, string>> = {},
    path = "/v1/chat/completions",
  ) => bed.call(path, { body, headers: { ...JSON_TYPE, ...headers } });
  const firstThenSecond = (ticket: string) =>
    grant("default/a", {
      "x-gateway-destination-endpoint": `127.0.0.1:${first.port},127.0.0.1:${second.port}`,
      "x-metalbridge-ticket": ticket,
    });
  const engineRequests = () => [...first.received, ...second.received];

  it("asks for each request with its model, sends it to the chosen endpoint, and names it in the log", async () => {
    bed.decisions.respond = () =>
      grant("default/a", {
        "x-gateway-destination-endpoint": `127.0.0.1:${second.port}`,
      });
    second.respond = () => ({
      headers: JSON_TYPE,
      body: '{"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":2}}}',
    });
    const ask = (n: number) => chat({ model: "default/a", n });
    for (const n of [1, 2, 3]) expect((await ask(n)).status).toBe(200);
    // Tickets differ between requests.
    const decide = bed.decisions.respond;
    bed.decisions.respond = async (one) => ({
      headers: { ...(await decide(one)).headers, "x-metalbridge-ticket": "t-7" },
    });
    expect((await ask(4)).status).toBe(200);
    expect(first.received).toEqual([]);
    expect(second.received).toHaveLength(4);
    const [asked] = bed.decisions.received;
    expect(asked).toMatchObject({
      method: "POST",
      path: "/decide/v1/chat/completions",
      body: '{"model":"default/a","n":1}',
    });
    expect(asked?.headers["x-metalbridge-model"]).toBe("default/a");
    const finished = await bed.finished("t-7");
    expect(finished).toMatchObject({
      ...{
        ticket: "t-7",
        status: 200,
        method: "POST",
        path: "/v1/chat/completions",
        cluster: "default/a",
        attempts: 1,
      },
      ...{
        endpoint: `127.0.0.1:${second.port}`,
        tokens: { in: 7, out: 3, cached: 2 },
        details: "via_upstream",
      },
    });
    expect(finished?.requestId).toBe(bed.decisions.received.at(-1)?.headers["x-request-id"]);
  });

  it("asks once for a request that is held for longer than any interval between retries", async () => {
    bed.decisions.respond = async () => {
      await new Promise((resolve) => setTimeout(resolve, 2_500));
      return grant("default/a");
    };
    const before = bed.decisions.received.length;
    expect((await chat({ model: "default/a" })).status).toBe(200);
    expect(bed.decisions.received.length - before).toBe(1);
  });

  it("lets no client steer, shows it no steering header, and names only the service to the engine", async () => {
    first.respond = second.respond = () => ({
      headers: { "x-metalbridge-cluster": "x", "x-envoy-upstream-service-time": "1" },
    });
    const injected = {
      "x-metalbridge-cluster": "default/off",
      "x-metalbridge-model": "other",
      "x-metalbridge-anything": "x",
      "x-gateway-destination-endpoint": `127.0.0.1:${offPort}`,
      "x-gateway-destination-endpoint-subset": "x",
      "x-envoy-retry-on": "5xx",
      "x-envoy-upstream-rq-timeout-ms": "1",
      "x-envoy-decorator-operation": "x",
    };
    const { status, headers } = await chat({ model: "a" }, injected);
    expect(status).toBe(200);
    const isSteering = (name: string) => /^x-(metalbridge|gateway|envoy)-/.test(name);
    expect(Object.keys(headers).filter(isSteering)).toEqual([]);
    const [engine] = engineRequests();
    expect(Object.keys(engine?.headers ?? {}).filter(isSteering)).toEqual(["x-metalbridge-cluster"]);
    expect(engine?.headers["x-metalbridge-cluster"]).toBe("default/a");
    const asked = bed.decisions.received[0]?.headers ?? {};
    expect(asked["x-metalbridge-model"]).toBe("a");
    expect(
      Object.keys(injected).filter((name) => name !== "x-metalbridge-model" && asked[name] !== undefined),
    ).toEqual([]);
  });

  it("names the host that has answered, after a failed try too, to a client that asks and to no other", async () => {
    const at = `127.0.0.1:${first.port}`;
    first.respond = () => ({ headers: { "x-metalbridge-host": "forged" } });
    const ask = async (cluster: string, endpoints: string, headers = {}) => {
      bed.decisions.respond = () => grant(cluster, { "x-gateway-destination-endpoint": endpoints });
      return (await chat({ model: "a" }, headers)).headers["x-metalbridge-host"];
    };
    const asking = { "x-show-host": "true" };
    expect(await ask("default/named", at, asking)).toBe("mac-1");
    expect(await ask("default/named", `127.0.0.1:${offPort},${at}`, asking)).toBe("mac-1");
    expect(await ask("default/named", at)).toBeUndefined();
    expect(await ask("default/a", at, asking)).toBeUndefined();
    expect(await ask("default/none", at, asking)).toBeUndefined();
    // Clients cannot name one to the engine.
    expect(await ask("default/named", at, { "x-metalbridge-host": "forged" })).toBeUndefined();
    expect(first.received.at(-1)?.headers["x-metalbridge-host"]).toBeUndefined();
  });

  it("sends the engine its own key, never a client's credentials", async () => {
    const credentials = {
      authorization: "Bearer client",
      "x-api-key": "client",
      cookie: "c=1",
      "proxy-authorization": "p",
    };
    await chat({ model: "a" }, credentials);
    bed.decisions.respond = () => grant("default/a", { authorization: "Bearer engine" });
    await chat({ model: "a" }, credentials);
    expect(bed.decisions.received[0]?.headers).toMatchObject(credentials);
    const seen = engineRequests().map(({ headers }) => ({ ...headers }));
    expect(seen.map(({ authorization }) => authorization).sort()).toEqual(["Bearer engine", undefined]);
    expect(JSON.stringify(seen)).not.toContain("client");
  });

  it("ignores an address outside the cluster, and tries the next address where one refuses connections", async () => {
    bed.decisions.respond = () =>
      grant("default/a", { "x-gateway-destination-endpoint": `127.0.0.1:${offPort},192.0.2.1:80` });
    expect((await chat({ model: "a" })).status).toBe(200);
    bed.decisions.respond = () =>
      grant("default/half", {
        "x-gateway-destination-endpoint": `127.0.0.1:${offPort},127.0.0.1:${first.port}`,
        "x-metalbridge-ticket": "order",
      });
    expect((await chat({ model: "a" })).status).toBe(200);
    expect(await bed.finished("order")).toMatchObject({
      attempts: 2,
      endpoint: `127.0.0.1:${first.port}`,
    });
  });

  it.each([
    ["closes the connection, a second one is tried", () => RESET, 200],
    ["answers 503, a second one is tried", () => ({ status: 503, headers: JSON_TYPE, body: "{}" }), 200],
    ["answers 502, a second one is tried", () => ({ status: 502, headers: JSON_TYPE, body: "{}" }), 200],
    ["answers 500, that is the answer", () => ({ status: 500, headers: JSON_TYPE, body: "{}" }), 500],
    ["answers 429, that is the answer", () => ({ status: 429, headers: JSON_TYPE, body: "{}" }), 429],
  ] as const)("where the first replica %s", async (what, respond, status) => {
    first.respond = respond;
    bed.decisions.respond = () => firstThenSecond(what);
    const body = { model: "a", messages: ["x".repeat(100_000)] };
    expect((await chat(body)).status).toBe(status);
    const isRepeated = status === 200;
    expect((await bed.finished(what)).attempts).toBe(isRepeated ? 2 : 1);
    expect(first.received).toHaveLength(1);
    expect(second.received.map((one) => one.body)).toEqual(isRepeated ? [JSON.stringify(body)] : []);
  });

  it("tries once, and never after the first byte", async () => {
    for (const engine of [first, second]) engine.respond = () => RESET;
    bed.decisions.respond = () => firstThenSecond("both");
    expect((await chat({ model: "a" })).status).toBe(503);
    expect((await bed.finished("both")).attempts).toBe(2);
    expect(engineRequests()).toHaveLength(2);
    for (const engine of [first, second]) engine.received.length = 0;
    first.respond = () => ({ headers: JSON_TYPE, body: diesLater() });
    bed.decisions.respond = () => firstThenSecond("begun");
    await expect(chat({ model: "a", stream: true })).rejects.toThrow();
    expect((await bed.finished("begun")).attempts).toBe(1);
    expect(engineRequests()).toHaveLength(1);
  });

  it.each([
    [
      "with comments and names",
      [
        ': "a {\n\nevent: "b"\ndata: {"usage":\n\n',
        'data: {"usa',
        'ge":{"prompt_tokens":1',
        "2}}\n\ndata: [DONE]\n\n",
      ],
      { in: 12, out: 0, cached: 0 },
    ],
    [
      "of OpenAI",
      [
        'data: {"b": 1,"a":"é"}\n\n',
        'data: {"usage":{"prompt_tokens":9,"completion_tokens":4}}\n\ndata: [DONE]\n\n',
      ],
      { in: 9, out: 4, cached: 0 },
    ],
    [
      "of llama-server without usage",
      ['data: {"a":1}\n\n', 'data: {"timings":{"prompt_n":5,"predicted_n":6,"cache_n":10}}\n\n'],
      { in: 15, out: 6, cached: 10 },
    ],
    [
      "of OpenAI's responses",
      [
        `event: response.completed\ndata: {"response":{"output":"${"x".repeat(100_000)}","usage":{"input_tokens":3,"output_tokens":2,"input_tokens_details":{"cached_tokens":1}}}}\n\n`,
      ],
      { in: 3, out: 2, cached: 1 },
    ],
    [
      "of Anthropic",
      [
        'event: message_start\ndata: {"message":{"usage":{"input_tokens":8,"cache_read_input_tokens":20,"output_tokens":1}}}\n\n',
        'event: message_delta\ndata: {"usage":{"output_tokens":5}}\n\nevent: message_stop\ndata: {}\n\n',
      ],
      { in: 28, out: 5, cached: 20 },
    ],
  ])("passes the events %s on unchanged, and counts their tokens", async (title, parts, tokens) => {
    bed.decisions.respond = () => grant("default/a", { "x-metalbridge-ticket": title });
    first.respond = second.respond = () => ({
      headers: { "content-type": "text/event-stream; charset=utf-8" },
      body: (async function* () {
        yield* parts;
      })(),
    });
    const { text, headers } = await chat({ model: "a", stream: true });
    expect(text).toBe(parts.join(""));
    expect(headers["content-type"]).toBe("text/event-stream; charset=utf-8");
    expect((await bed.finished(title)).tokens).toEqual(tokens);
  });

  it("passes refusals of the decision service on as they are, also with a 5xx status", async () => {
    const refusal = {
      headers: { ...JSON_TYPE, "retry-after": "7", "x-should-retry": "true" },
      body: '{"error":"own"}',
    };
    for (const status of [401, 404, 429, 503, 529]) {
      const sent =
        status < 500
          ? refusal
          : { ...refusal, headers: { ...refusal.headers, "x-metalbridge-status": String(status) } };
      bed.decisions.respond = () => ({ ...sent, status: Math.min(status, 429) });
      const called = await chat({ model: "a" });
      expect(called).toMatchObject({ status, text: '{"error":"own"}' });
      expect(called.headers).toMatchObject(refusal.headers);
      expect(called.headers["x-metalbridge-status"]).toBeUndefined();
    }
  });

  it("answers in the dialect of the path where no endpoint can", async () => {
    const cases = [
      ["default/none", "model_not_ready", "overloaded_error"],
      ["default/sick", "model_not_ready", "overloaded_error"],
      ["default/unknown", "model_not_ready", "overloaded_error"],
      ["default/off", "service_unavailable", "api_error"],
    ] as const;
    for (const [cluster, code, anthropicType] of cases) {
      bed.decisions.respond = () => grant(cluster);
      const [openAi, service, anthropic, ollama] = await Promise.all(
        ["/v1/chat/completions", "/s/default/a/v1/completions", "/s/default/a/v1/messages", "/api/chat"].map(
          (path) => chat({}, {}, path),
        ),
      );
      for (const one of [openAi, service, anthropic, ollama]) {
        expect(one?.status).toBe(503);
        expect(one?.headers).toMatchObject({ ...JSON_TYPE, "retry-after": "1", "x-should-retry": "true" });
      }
      expect(JSON.parse(openAi?.text ?? "").error).toMatchObject({ code, param: null, type: "server_error" });
      expect(JSON.parse(service?.text ?? "").error.code).toBe(code);
      expect(JSON.parse(anthropic?.text ?? "")).toMatchObject({
        type: "error",
        error: { type: anthropicType },
      });
      expect(JSON.parse(ollama?.text ?? "").error).toMatch(/\w/);
    }
  });

  it("reports how many requests each service has in flight", async () => {
    const respond = Promise.withResolvers<TestResponse>();
    first.respond = second.respond = () => respond.promise;
    const calls = [chat({ model: "a" }), chat({ model: "a" })];
    await until(() => expect(engineRequests()).toHaveLength(2), { everyMs: 5 });
    expect((await bed.envoy.activeRequests())?.get("default/a")).toBe(2);
    respond.resolve({ body: "{}" });
    await Promise.all(calls);
    await until(async () => expect((await bed.envoy.activeRequests())?.get("default/a")).toBe(0), {
      everyMs: 5,
    });
  });

  it("takes lists of models and health from the decision service, with the client's key and without a question", async () => {
    bed.decisions.respond = ({ path }) => ({ body: path });
    const headers = { authorization: "Bearer client" };
    for (const path of ["/healthz", "/v1/models", "/v1/models/default/a", "/s/default/a/v1/models"]) {
      expect(await bed.call(path, { method: "GET", headers })).toMatchObject({ status: 200, text: path });
      expect(bed.decisions.received.at(-1)?.headers.authorization).toBe("Bearer client");
    }
  });

  it("ends the request at the engine when the client leaves, and says so in the log", async () => {
    const chosen = {
      "x-gateway-destination-endpoint": `127.0.0.1:${second.port}`,
      "x-metalbridge-ticket": "left",
    };
    bed.decisions.respond = () => grant("default/a", chosen);
    await leaveAt(second);
    expect(await bed.finished("left")).toMatchObject({ flags: "DC", tokens: undefined });
  });

  it("leaves no work at the engine when a client leaves after any byte, and reports each such request once", async () => {
    const server = second;
    server.aborted.length = 0;
    server.respond = () => new Promise(() => {});
    bed.decisions.respond = () =>
      grant("default/a", { "x-gateway-destination-endpoint": `127.0.0.1:${server.port}` });
    const body = '{"model":"a"}';
    const head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json";
    const text = `${head}\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
    const offsets = fc.integer({ min: 0, max: text.length });
    await fc.assert(
      fc.asyncProperty(offsets, fc.boolean(), async (at, isReset) => {
        const socket = connect(bed.port, "127.0.0.1").on("error", () => undefined);
        const had = server.received.length;
        await new Promise((sent) => socket.write(text.slice(0, at), sent));
        if (at === text.length)
          await until(() => expect(server.received.length).toBe(had + 1), { everyMs: 1 });
        if (isReset) socket.resetAndDestroy();
        else socket.destroy();
        await until(() => expect(server.aborted.length).toBe(server.received.length), { everyMs: 1 });
      }),
      {
        numRuns: 60,
        examples: [
          [text.length, true],
          [text.length, false],
        ],
      },
    );
    const ids = server.received.map(({ headers }) => String(headers["x-request-id"]));
    expect(ids.length).toBeGreaterThan(1);
    for (const id of ids) await untilAnswered(id);
    const reported = answered.filter(({ id }) => ids.includes(id));
    expect(reported.map(({ id }) => id).sort()).toEqual(ids.sort());
    expect(new Set(reported.map(({ status }) => status))).toEqual(new Set([0]));
  });

  it("ends the question when the client leaves a held request", async () => {
    await leaveAt(bed.decisions);
    expect(engineRequests()).toEqual([]);
  });

  /** A client that leaves when its request has reached the server. */
  async function leaveAt(server: TestServer): Promise<void> {
    server.respond = () => new Promise(() => {});
    const leave = new AbortController();
    const call = bed.call("/v1/chat/completions", { body: { model: "a" }, signal: leave.signal });
    const failed = expect(call).rejects.toThrow();
    await until(() => expect(server.received).toHaveLength(1), { everyMs: 5 });
    leave.abort();
    await failed;
    await until(() => expect(server.aborted).toHaveLength(1), { everyMs: 5 });
  }
});
