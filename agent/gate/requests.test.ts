/** What passes a route and what does not, over real connections. */
import { once } from "node:events";
import fc from "fast-check";
import { expect, test } from "vitest";
import { until } from "../../test/bed/until.ts";
import {
  CHAT_PATH as CHAT,
  openRaw,
  post,
  routeTo,
  startDaemon,
  startPair,
  startRoute,
  statusFor,
  steppedStream,
} from "./fixtures/route.ts";

const head = (line: string, ...headers: string[]) => [line, "Host: x", ...headers, "", ""].join("\r\n");
const postHead = (...headers: string[]) => head(`POST ${CHAT} HTTP/1.1`, ...headers);

test("an inference request reaches the daemon with its model, and the daemon's answer comes back", async () => {
  await using pair = await startPair();
  const answer = await post(
    `${pair.url}${CHAT}?model=other`,
    '{"model":"chat","seed":12345678901234567890}',
    {
      "x-request-id": "7",
      authorization: "Bearer of-the-client",
      cookie: "omlx_admin_session=1",
    },
  );
  expect(answer.status).toBe(200);
  const [got] = pair.daemon.received;
  expect(got).toMatchObject({ method: "POST", url: CHAT, headers: { "x-request-id": "7" } });
  expect(got?.body).toBe('{"model":"hf.co/org/model:Q4","seed":12345678901234567890}');
  expect(got?.headers.host).toBe(`127.0.0.1:${pair.daemon.port}`);
  expect(got?.headers).not.toHaveProperty("authorization");
  expect(got?.headers).not.toHaveProperty("cookie");
  expect(pair.counters.requests).toEqual({ 200: 1 });
});

test("hop-by-hop headers are the gate's own, those that Connection names included", async () => {
  await using pair = await startPair({}, (request, response) => {
    request.resume();
    response.setHeader("connection", "x-secret, keep-alive");
    response.setHeader("x-secret", "1");
    response.setHeader("x-open", JSON.stringify(request.headers));
    response.end("{}");
  });
  const raw = await openRaw(pair.port);
  raw.socket.write(
    `${postHead("Connection: x-hop, keep-alive", "X-Hop: 1", "TE: trailers", "Content-Length: 2")}{}`,
  );
  await until(() => expect(raw.text).toContain("\r\n\r\n"));
  expect(raw.text).toMatch(/^HTTP\/1\.1 200/);
  expect(raw.text).not.toContain("x-secret: 1");
  const seen = JSON.parse(/^x-open: (.*)\r$/im.exec(raw.text)?.[1] ?? "");
  expect(seen).not.toHaveProperty("x-hop");
  expect(seen).not.toHaveProperty("te");
  raw.socket.destroy();
});

test.each([
  ["POST", "/v1/chat/completions", 400],
  ["POST", "/api/chat", 404],
  ["POST", "/v1/rerank", 400],
  ["GET", "/v1/chat/completions", 405],
  ["DELETE", "/v1/models/chat", 403],
  ["DELETE", "/v1/models", 403],
  ["POST", "/v1/models/chat/unload", 403],
  ["POST", "/models/load", 403],
  ["POST", "/admin/api/login", 403],
  ["POST", "/slots/0", 403],
  ["POST", "/lora-adapters", 403],
  ["POST", "/api/pull", 403],
  ["DELETE", "/api/delete", 403],
  ["GET", "/metrics", 404],
  ["GET", "/", 404],
  ["GET", "/toString", 404],
])("openai: %s %s without a body is %i", async (method, path, status) => {
  await using pair = await startPair();
  expect(await statusFor(pair.port, head(`${method} ${path} HTTP/1.1`))).toMatch(String(status));
  expect(pair.daemon.received).toEqual([]);
});

test.each([
  ["POST", "/api/pull", 403],
  ["POST", "/api/push", 403],
  ["POST", "/api/create", 403],
  ["POST", "/api/copy", 403],
  ["DELETE", "/api/delete", 403],
  ["HEAD", "/api/blobs/sha256:0", 403],
  ["POST", "/api/blobs/sha256:0", 403],
  ["POST", "/api/tags", 405],
  ["GET", "/api/version", 404],
])("ollama: %s %s is %i, with the reason in Ollama's form", async (method, path, status) => {
  await using pair = await startPair({ protocol: "ollama" });
  const answer = await fetch(pair.url + path, { method });
  expect(answer.status).toBe(status);
  if (method !== "HEAD") expect(await answer.json()).toEqual({ error: expect.any(String) });
  expect(pair.daemon.received).toEqual([]);
});

test.each([
  "//v1/chat/completions",
  "/v1//chat/completions",
  "/v1/chat/../chat/completions",
  "/v1/./chat/completions",
  "/v1/chat%2fcompletions",
  "/%2e%2e/api/delete",
  "/v1/chat/completions%00",
  "/v1\\chat/completions",
  "/v1/chat/completions;x",
  "http://127.0.0.1/v1/chat/completions",
  "*",
  "/v1/chat/completions/",
  "/V1/chat/completions",
])("the request target %s never reaches the daemon", async (path) => {
  await using pair = await startPair({ protocol: "ollama" });
  const request = `${head(`POST ${path} HTTP/1.1`, "Content-Length: 2")}{}`;
  expect(await statusFor(pair.port, request)).toMatch(/^40[04]|^closed/);
  expect(pair.daemon.received).toEqual([]);
});

test.each([
  ["two lengths", "Content-Length: 2\r\nContent-Length: 3", "400"],
  ["a length and chunks", "Content-Length: 2\r\nTransfer-Encoding: chunked", "400"],
  ["chunks and a length", "Transfer-Encoding: chunked\r\nContent-Length: 2", "400"],
  ["an unknown transfer coding", "Transfer-Encoding: xchunked", "400"],
  ["chunks that are not the last coding", "Transfer-Encoding: chunked, identity", "400"],
  ["a folded header", "X-A: 1\r\n Content-Length: 2", "400"],
  ["a space before the colon", "Content-Length : 2", "400"],
  ["a signed length", "Content-Length: +2", "400"],
  ["a length in hex", "Content-Length: 0x2", "400"],
  ["a bare line feed", "X-A: 1\nContent-Length: 2", "400"],
  ["a zero byte", "X-A: \0", "400"],
  ["17 KiB of headers", `X-A: ${"a".repeat(17 * 1024)}`, "431"],
])("a head with %s is refused, also where bodies are passed on unread", async (_, headers, status) => {
  for (const protocol of ["openai", "any"] as const) {
    await using pair = await startPair({ protocol });
    expect(await statusFor(pair.port, `${postHead(headers)}{}`)).toMatch(status);
    expect(pair.daemon.received).toEqual([]);
    expect(Object.values(pair.counters.refused)).toEqual([1]);
  }
});

test("a head is refused exactly where its target, names and values have 16 KiB together", async () => {
  await using pair = await startPair();
  const more = fc.integer({ min: -3, max: 3 });
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(3_000), { maxLength: 4 }), more, async (lengths, over) => {
      const headers = lengths.map((length) => `X: ${"x".repeat(length)}`);
      const counted = ["/health", "Host", "x", "Y", ...headers.map((header) => header.replace(": ", ""))];
      headers.push(`Y: ${"y".repeat(16 * 1024 + over - counted.join("").length)}`);
      const status = await statusFor(pair.port, head("GET /health HTTP/1.1", ...headers));
      expect(status).toMatch(over < 0 ? /^200/ : /^431/);
    }),
    { numRuns: 40 },
  );
});

test.each([
  ["a bad chunk size", "Transfer-Encoding: chunked", "zz\r\n{}\r\n0\r\n\r\n"],
  [
    "a request within the last chunk's trailer",
    "Transfer-Encoding: chunked",
    "2\r\n{}\r\n0\r\nGET /x HTTP/1.1\r\n\r\n",
  ],
])("a body with %s is refused", async (_, header, body) => {
  await using pair = await startPair();
  expect(await statusFor(pair.port, postHead(header) + body)).toMatch("400");
  expect(pair.daemon.received).toEqual([]);
});

test("a second request hidden behind a length is a request of its own, and judged as one", async () => {
  await using pair = await startPair();
  const raw = await openRaw(pair.port);
  raw.socket.write(
    `${postHead("Content-Length: 2")}{}POST /api/delete HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n`,
  );
  await until(() => expect(raw.text.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 200", "HTTP/1.1 403"]));
  expect(pair.daemon.received).toHaveLength(1);
  raw.socket.destroy();
});

test.each([
  ["not JSON", "model=chat", 400, "not_json"],
  ["another model's name", '{"model":"other"}', 404, "model"],
  ["two models", '{"model":"chat","model":"other"}', 400, "not_json"],
  ["nothing", "", 400, "not_json"],
])("a body with %s is refused", async (_, body, status, reason) => {
  await using pair = await startPair();
  const answer = await post(pair.url + CHAT, body);
  expect(answer.status).toBe(status);
  expect(await answer.json()).toMatchObject({ error: { type: reason, code: status } });
  expect(pair.counters.refused).toEqual({ [reason]: 1 });
  expect(pair.daemon.received).toEqual([]);
});

test("a compressed body is refused, since its model cannot be read", async () => {
  await using pair = await startPair();
  expect((await post(pair.url + CHAT, "{}", { "content-encoding": "gzip" })).status).toBe(415);
  expect((await post(pair.url + CHAT, "{}", { "content-encoding": "identity" })).status).not.toBe(415);
});

test.each([
  ["that says so", "Content-Length: 5000", ""],
  ["in chunks that never end", "Transfer-Encoding: chunked", `800\r\n${"a".repeat(2_048)}\r\n`],
])(
  "a body that is too large, %s, is 413 before it is complete, and nothing of it is kept",
  async (_, header, part) => {
    await using pair = await startPair({ limits: { bodyBytes: 1_000 } });
    expect(await statusFor(pair.port, postHead(header) + part)).toMatch("413");
    await until(() => expect(pair.bodies.bytes).toBe(0));
    expect(pair.daemon.received).toEqual([]);
  },
);

test("a slow head and a slow body end with 408", async () => {
  await using pair = await startPair({ limits: { headMs: 200, requestMs: 400 } });
  expect(await statusFor(pair.port, "POST /v1/chat")).toMatch("408");
  expect(await statusFor(pair.port, `${postHead("Content-Length: 10")}{"a":`)).toMatch("408");
  await until(() => expect(pair.server.status()).toMatchObject({ inFlight: 0, connections: 0 }));
  expect(pair.counters.refused).toEqual({ slow: 2 });
  expect(pair.daemon.received).toEqual([]);
});

test("a client that disconnects while it sends causes no request to the daemon", async () => {
  await using pair = await startPair();
  const raw = await openRaw(pair.port);
  raw.socket.write(`${postHead("Content-Length: 100")}{"a":1`);
  await until(() => expect(pair.server.status().inFlight).toBe(1));
  await until(() => expect(pair.bodies.bytes).toBe(4_096));
  raw.socket.resetAndDestroy();
  await until(() => expect(pair.server.status()).toMatchObject({ inFlight: 0, connections: 0 }));
  expect(pair.bodies.bytes).toBe(0);
  expect(pair.daemon.received).toEqual([]);
});

test("a client that disconnects during a stream aborts the daemon's work", async () => {
  const stream = steppedStream();
  await using pair = await startPair({}, stream.listener);
  const opened = stream.next();
  const raw = await openRaw(pair.port);
  raw.socket.write(`${postHead("Content-Length: 2")}{}`);
  (await opened).write("data: 1\n\n");
  await until(() => expect(raw.text).toContain("data: 1"));
  raw.socket.destroy();
  await stream.closed[0];
  await until(() => expect(pair.server.status().inFlight).toBe(0));
  expect(pair.counters.requests).toEqual({ 499: 1 });
});

test("pipelined requests of a client that disconnects are all dropped", async () => {
  const stream = steppedStream();
  await using pair = await startPair({}, stream.listener);
  const raw = await openRaw(pair.port);
  raw.socket.write(`${postHead("Content-Length: 2")}{}`.repeat(3));
  await until(() => expect(pair.server.status().inFlight).toBe(3));
  await until(() => expect(stream.open).toHaveLength(3));
  raw.socket.destroy();
  await until(() => expect(pair.server.status().inFlight).toBe(0));
  await Promise.all(stream.closed);
});

test.each(["1.1", "1.0"])(
  "a daemon that crashes during a stream disconnects an HTTP/%s client",
  async (version) => {
    const stream = steppedStream();
    await using pair = await startPair({}, stream.listener);
    const opened = stream.next();
    const raw = await openRaw(pair.port);
    raw.socket.write(`POST ${CHAT} HTTP/${version}\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}`);
    const response = await opened;
    response.write("data: 1\n\n");
    await until(() => expect(raw.text).toContain("data: 1"));
    response.socket?.resetAndDestroy();
    await until(() => expect(raw.socket.destroyed).toBe(true));
    if (version === "1.1") expect(raw.text).not.toContain("\r\n0\r\n");
    else expect(raw.error).toBe("ECONNRESET");
    await until(() => expect(pair.counters.requests).toEqual({ 599: 1 }));
  },
);

test("a daemon that closes before it answers is 502, and gets the request once", async () => {
  let asked = 0;
  await using pair = await startPair({}, (request) => {
    asked += 1;
    request.socket.destroy();
  });
  expect((await post(pair.url + CHAT, {})).status).toBe(502);
  expect(asked).toBe(1);
});

test("a kept-alive connection that the daemon closes between two requests is not used again", async () => {
  await using pair = await startPair();
  expect((await post(pair.url + CHAT, {})).status).toBe(200);
  const closed = once(pair.daemon.server, "connection").then(([socket]) => once(socket, "close"));
  pair.daemon.server.closeIdleConnections();
  expect((await post(pair.url + CHAT, {})).status).toBe(200);
  expect((await post(pair.url + CHAT, {})).status).toBe(200);
  expect(pair.daemon.received).toHaveLength(3);
  pair.daemon.server.closeAllConnections();
  await closed;
});

test("a connection is used again, except one that carried a stream: the daemon may close it unannounced", async () => {
  const ports: (number | undefined)[] = [];
  await using pair = await startPair({ protocol: "any" }, (request, response) => {
    ports.push(request.socket.remotePort);
    request.resume();
    const isStream = request.url === "/stream";
    response.setHeader("content-type", isStream ? "text/event-stream" : "application/json");
    response.end("data: {}\n\n");
  });
  for (const path of ["/plain", "/plain", "/stream", "/plain"])
    expect((await (await post(pair.url + path, {})).text()).length).toBeGreaterThan(0);
  const [first, second, stream, last] = ports;
  expect([second, stream]).toEqual([first, first]);
  expect(last).not.toBe(stream);
});

test("a missing daemon is 503 with Retry-After", async () => {
  await using pair = await startPair();
  await pair.daemon[Symbol.asyncDispose]();
  const answer = await post(pair.url + CHAT, {});
  expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "2"]);
});

test("a daemon that does not accept the gate's key is 502: the client's key was right", async () => {
  await using pair = await startPair({}, (_, response) => void response.writeHead(401).end());
  expect((await post(pair.url + CHAT, {})).status).toBe(502);
});

test("an answer is passed on as it comes, and a client that does not read stops the daemon's writing", async () => {
  const stream = steppedStream();
  await using pair = await startPair({}, stream.listener);
  const opened = stream.next();
  const raw = await openRaw(pair.port);
  raw.socket.write(`${postHead("Content-Length: 2")}{}`);
  const response = await opened;
  await until(() => expect(raw.text).toContain("text/event-stream"));
  raw.socket.pause();
  const block = Buffer.alloc(256 * 1024, "x");
  let written = 0;
  const blocked = new Promise<void>((resolve) => {
    const more = () => {
      let isTaken = true;
      while (isTaken && written < 256 * 1024 ** 2) {
        isTaken = response.write(block);
        written += block.length;
      }
      response.once("drain", more);
      const before = written;
      // No drain for a while: the way is full.
      setTimeout(() => before === written && resolve(), 300);
    };
    more();
  });
  await blocked;
  expect(written).toBeLessThan(64 * 1024 ** 2);
  response.removeAllListeners("drain");
  raw.socket.resume();
  await once(response, "drain");
  response.end("data: [DONE]\n\n");
  await until(() => expect(raw.text).toContain("[DONE]"));
});

test("time to the first byte and the gaps after it are counted", async () => {
  const stream = steppedStream();
  await using pair = await startPair({}, stream.listener);
  const opened = stream.next();
  const answer = post(pair.url + CHAT, {});
  const response = await opened;
  const reader = (await answer).body?.getReader();
  for (const text of ["data: 1\n\n", "data: 2\n\n", "data: 3\n\n"]) {
    response.write(text);
    await reader?.read();
  }
  response.end();
  expect((await reader?.read())?.done).toBe(true);
  const sum = (counts: readonly number[]) => counts.reduce((all, one) => all + one, 0);
  await until(() => expect(pair.counters.requests).toEqual({ 200: 1 }));
  expect(sum(pair.counters.firstByte.counts)).toBe(1);
  expect(sum(pair.counters.gaps.counts)).toBe(2);
});

test.each(["000", "099"])(
  "an engine's answer with the status %s is 502, and the gate keeps serving",
  async (status) => {
    await using engine = await startDaemon();
    engine.server.removeAllListeners("request").on("request", ({ socket }) => {
      socket.end(`HTTP/1.1 ${status} X\r\nContent-Length: 2\r\n\r\nhi`);
    });
    await using gate = await startRoute(routeTo(engine.port));
    for (let count = 0; count < 2; count += 1) {
      const answer = await post(`${gate.url}${CHAT}`, {});
      expect([answer.status, await answer.text()]).toEqual([502, expect.stringContaining("status")]);
    }
  },
);
