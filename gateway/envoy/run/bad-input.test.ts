/** Requests that the real Envoy refuses itself, and connections without any. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeUnless } from "../../../test/bed/describe-unless.ts";
import { whyNoEnvoy } from "../../../test/bed/envoy.ts";
import { until } from "../../../test/bed/until.ts";
import {
  type Engine,
  type EnvoyBed,
  grant,
  JSON_TYPE,
  startEngine,
  startEnvoyBed,
} from "./fixtures/envoy-bed.ts";

const MIB = 1 << 20;

describeUnless(whyNoEnvoy, "bad input of Envoy", () => {
  let bed: EnvoyBed;
  let engine: Engine;

  beforeAll(async () => {
    bed = await startEnvoyBed({ limits: { maxBodyBytes: 4 * MIB, requestReceiveMs: 3_000 } });
    engine = await startEngine();
    await bed.envoy.apply([{ name: "default/a", endpoints: [engine], slowStartMs: 0 }]);
    bed.decisions.respond = () => grant("default/a");
    await until(async () => expect((await chat({ model: "a" })).status).toBe(200), { everyMs: 10 });
    engine.received.length = 0;
  });

  afterAll(async () => {
    await bed?.[Symbol.asyncDispose]();
    await engine?.[Symbol.asyncDispose]();
  });

  const chat = (
    body: unknown,
    headers: Readonly<Record<string, string>> = {},
    path = "/v1/chat/completions",
  ) => bed.call(path, { body, headers: { ...JSON_TYPE, ...headers } });

  it("refuses large and slow bodies, bad paths and broken HTTP with what to do", async () => {
    const large = await chat({ model: "a", messages: "x".repeat(5 * MIB) }, {}, "/v1/messages");
    expect(large.status).toBe(413);
    expect(JSON.parse(large.text)).toEqual({
      type: "error",
      error: {
        type: "request_too_large",
        message: "The request body is larger than 4 MiB. Send a smaller request.",
      },
    });
    // It is refused long before it has arrived.
    const head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json";
    const huge = await raw(bed.port, `${head}\r\ncontent-length: ${100 * MIB}\r\n\r\n${"x".repeat(5 * MIB)}`);
    expect(huge).toMatch(/^HTTP\/1.1 413 .*"code":"request_too_large"/s);
    const path = await chat({}, {}, "/v1/%00chat");
    expect(path).toMatchObject({ status: 400, headers: { "x-should-retry": "false" } });
    const [broken, slow] = await Promise.all([
      raw(bed.port, "NONSENSE\r\n\r\n"),
      raw(
        bed.port,
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{",
      ),
    ]);
    expect(broken).toMatch(/^HTTP\/1.1 400 .*"invalid_request_error"/s);
    expect(slow).toMatch(/^HTTP\/1.1 408 .*"timeout_error"/s);
    expect(engine.received).toEqual([]);
  });

  const POST = "POST /v1/responses HTTP/1.1\r\nhost: x\r\n";
  const HEADERS = Array.from({ length: 150 }, (_, index) => `x-${index}: 1\r\n`).join("");
  it.each([
    [
      "a WebSocket",
      `${POST}connection: upgrade\r\nupgrade: websocket\r\n\r\n`,
      426,
      "WebSocket",
      "upgrade_not_supported",
    ],
    [
      "another upgrade",
      `${POST}connection: upgrade\r\nupgrade: x\r\n\r\n`,
      426,
      "upgrades",
      "upgrade_not_supported",
    ],
    ["CONNECT", "CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n\r\n", 405, "forward proxy", "method_not_allowed"],
    ["no Host", "POST /v1/responses HTTP/1.1\r\n\r\n", 400, "no Host header", "invalid_request"],
    ["an encoded zero", `${POST.replace("responses", "%00")}\r\n`, 400, "zero byte", "bad_path"],
    ["a fragment", `${POST.replace("responses", "x#y")}\r\n`, 400, "fragment", "bad_path"],
    ["no path", "OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n", 404, "does not start with a slash", "bad_path"],
    [
      "two lengths",
      `${POST}content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n`,
      400,
      "both Content-Length",
      "invalid_request",
    ],
    [
      "another encoding",
      `${POST}transfer-encoding: gzip, chunked\r\n\r\n`,
      400,
      "`chunked`",
      "invalid_request",
    ],
    ["nonsense", "NONSENSE\r\n\r\n", 400, "is not valid HTTP", "invalid_request"],
    ["TLS on the plain port", "\x16\x03\x01\x02\r\n\r\n", 400, "start with https", "invalid_request"],
    [
      "long headers",
      `${POST}cookie: ${"c".repeat(61 << 10)}\r\n\r\n`,
      431,
      "larger than 60 KiB",
      "headers_too_large",
    ],
    [
      "a long path",
      `${POST.replace("responses", "x".repeat(61 << 10))}\r\n`,
      431,
      "request line",
      "headers_too_large",
    ],
    ["many headers", `${POST}${HEADERS}\r\n`, 431, "more than 100 headers", "headers_too_large"],
  ])("says why it refuses %s, with an identifier", async (_, request, status, message, code) => {
    const seen = await raw(bed.port, request, /\}\s*$/);
    const [head = "", body = ""] = seen.split("\r\n\r\n");
    expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(head).toMatch(/^x-should-retry: false\r$/m);
    expect(head).toMatch(/^x-request-id: [0-9a-f-]{36}\r$/m);
    expect(JSON.parse(body).error).toMatchObject({ code, message: expect.stringContaining(message) });
    expect(engine.received).toEqual([]);
  });

  it.each([
    ["/v1/messages", { type: "error", error: { message: expect.stringContaining("WebSocket") } }],
    ["/s/default/a/v1/messages/count_tokens", { type: "error" }],
    ["/api/chat", { error: expect.stringContaining("WebSocket") }],
  ])("says it at %s in the dialect of that path", async (path, expected) => {
    const upgrade = { connection: "upgrade", upgrade: "websocket" };
    const seen = await bed.call(path, { method: "GET", headers: upgrade });
    expect([seen.status, JSON.parse(seen.text)]).toMatchObject([426, expected]);
  });

  it.each(["host: x\r\n", "", "host: x\r\nconnection: keep-alive\r\n"])(
    "answers HTTP/1.0 with %j",
    async (headers) => {
      const body = '{"model":"a"}';
      const request = `POST /v1/responses HTTP/1.0\r\n${headers}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
      const seen = await raw(bed.port, request, /\{\}/);
      expect(seen).toMatch(/^HTTP\/1.[01] 200 OK\r\n/);
      expect(seen).not.toContain("chunked");
      expect(engine.received.splice(0)).toMatchObject([{ path: "/v1/responses", body }]);
    },
  );

  const head = (path: string, length: number, type = "application/json") =>
    `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-type: ${type}\r\ncontent-length: ${length}\r\n\r\n`;

  it.each([
    ["/v1/chat/completions", "application/json"],
    ["/v1/audio/transcriptions", "multipart/form-data; boundary=x"],
    ["/s/default/a/v1/messages", "application/json"],
    ["/s/default/a/v1/embeddings", "text/plain"],
  ])("asks by the headers of %s (%s) before it has the body, and limits every body", async (path, type) => {
    bed.decisions.respond = () => ({ status: 401, body: "no key" });
    expect(await raw(bed.port, head(path, 3 * MIB, type))).toMatch(/^HTTP\/1.1 401 .*no key$/s);
    expect(bed.decisions.received.at(-1)).toMatchObject({ path: `/authenticate${path}`, body: "" });
    bed.decisions.respond = () => grant("default/a");
    const large = await raw(bed.port, `${head(path, 6 * MIB, type)}${"x".repeat(5 * MIB)}`);
    expect(large).toMatch(/^HTTP\/1.1 413 .*request_too_large/s);
    expect(engine.received).toEqual([]);
  });

  it("lets pages of an allowed origin send any header and read the response, whatever the engine says", async () => {
    const origin = "http://localhost:3000";
    await using open = await startEnvoyBed({
      cors: { allowOrigins: [origin] },
      clusters: [{ name: "default/a", endpoints: [engine] }],
    });
    const forged = { "access-control-allow-origin": "*", "access-control-allow-credentials": "true" };
    engine.respond = () => ({ headers: { ...JSON_TYPE, ...forged }, body: "{}" });
    const ask = async (path: string, method: string, headers: Readonly<Record<string, string>>) => {
      const seen = await open.call(path, { method, headers: { ...JSON_TYPE, ...headers } });
      const about = Object.entries(seen.headers).filter(([name]) => name.startsWith("access-control-"));
      return { status: seen.status, ...Object.fromEntries(about) };
    };
    for (const names of [
      "authorization,content-type,x-stainless-os,x-stainless-retry-count",
      "x-api-key,anthropic-version,anthropic-dangerous-direct-browser-access",
      "authorization,x-session-id,x-request-deadline,x-show-host",
      "x-header-of-tomorrow",
    ])
      for (const path of ["/v1/chat/completions", "/v1/models/a%2Fb", "/s/default/a/v1/messages"]) {
        const asked = { "access-control-request-method": "POST", "access-control-request-headers": names };
        const preflight = await ask(path, "OPTIONS", { ...asked, origin });
        expect(preflight).toMatchObject({ status: 200, "access-control-allow-headers": names });
        expect(preflight).toMatchObject({ "access-control-allow-origin": origin });
        const read = { "access-control-allow-origin": origin, "access-control-expose-headers": "*" };
        expect(await ask(path, "POST", { origin })).toEqual({ status: 200, ...read });
        expect(await ask(path, "POST", { origin: "https://evil.example" })).toEqual({ status: 200 });
      }
    open.decisions.respond = () => ({ status: 401, body: "no key" });
    const refused = { status: 401, "access-control-allow-origin": origin };
    expect(await ask("/v1/responses", "POST", { origin })).toMatchObject(refused);
  });

  it("closes connections that send nothing or next to it, and idle ones when memory is scarce, but none with a request", async () => {
    const limits = { firstBytesMs: 100, crowdedHeapBytes: 1 << 20 };
    await using crowded = await startEnvoyBed({
      limits,
      clusters: [{ name: "default/a", endpoints: [engine] }],
    });
    const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
    engine.respond = async ({ path }) => {
      if (path === "/v1/responses") await answered;
      return { headers: JSON_TYPE, body: "{}" };
    };
    const running = raw(crowded.port, `${head("/v1/responses", 2)}{}`, /\{\}/);
    // Each resolves when Envoy closes the connection.
    const fewBytes = fc.array(fc.constantFrom("", "P", "POS", "GE"), { minLength: 1, maxLength: 30 });
    const areClosed = fc.asyncProperty(fewBytes, async (all) => {
      // A connection with bytes that were not read is reset.
      const received = await Promise.all(all.map((text) => raw(crowded.port, text).catch(() => "")));
      expect(received.filter((text) => text !== "" && !/^HTTP\/1.1 4/.test(text))).toEqual([]);
    });
    await fc.assert(areClosed, { numRuns: 5 });
    expect(await raw(crowded.port, `${head("/v1/embeddings", 2)}{}`)).toMatch(/^HTTP\/1.1 200 .*\{\}/s);
    answer();
    expect(await running).toMatch(/^HTTP\/1.1 200 .*\{\}/s);
    engine.received.length = 0;
  });

  it("sends no CORS headers, and serves beside ten thousand idle connections", async () => {
    const idle: Socket[] = [];
    // Envoy's queue of new connections is shorter than all of them.
    while (idle.length < 10_000) {
      const sockets = Array.from({ length: 500 }, () => connect(bed.port, "127.0.0.1"));
      idle.push(...sockets);
      await Promise.all(sockets.map((socket) => once(socket, "connect")));
    }
    const { status, headers } = await chat({ model: "a" }, { origin: "https://example.com" });
    for (const socket of idle) socket.destroy();
    expect(status).toBe(200);
    expect(Object.keys(headers).filter((name) => name.startsWith("access-control"))).toEqual([]);
  });
});

/** Everything that arrives on a connection until the other side closes it, or until that has arrived. */
function raw(port: number, text: string, until?: RegExp): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    let received = "";
    socket.on("data", (chunk) => {
      received += chunk.toString();
      if (until?.test(received)) socket.destroy();
    });
    // Envoy resets a connection whose request it has refused and not read to its end.
    socket.on("error", (error) => {
      if (received === "") reject(error);
    });
    socket.once("close", () => resolve(received));
    socket.write(text);
  });
}
