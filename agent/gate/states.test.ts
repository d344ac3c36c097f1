/** How a route stops taking requests without losing one. */
import { once } from "node:events";
import { Agent, type ClientRequestArgs, request } from "node:http";
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
  steppedStream,
} from "./fixtures/route.ts";

const SHORT = `POST ${CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}`;

test("a route without a target answers 503 with Retry-After, and its connections stay open", async () => {
  await using pair = await startPair({ state: "none" });
  for (const path of [CHAT, "/health"]) {
    const answer = path === CHAT ? await post(pair.url + path, {}) : await fetch(pair.url + path);
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "2"]);
    expect(answer.headers.get("connection")).not.toBe("close");
  }
  pair.server.update({ ...pair.route, state: "passing" });
  expect((await post(pair.url + CHAT, {})).status).toBe(200);
});

test("a leaving route answers each kept-alive client once more, and then ends its connection", async () => {
  await using pair = await startPair();
  const raw = await openRaw(pair.port);
  raw.socket.write(SHORT);
  await until(() => expect(raw.text).toContain("got"));
  expect(raw.text).not.toMatch(/connection: close/i);
  pair.server.update({ ...pair.route, state: "leaving" });
  raw.text = "";
  raw.socket.write(SHORT);
  await until(() => expect(raw.isEnded).toBe(true));
  expect(raw.text).toMatch(/^HTTP\/1\.1 200/);
  expect(raw.text).toMatch(/connection: close/i);
  expect((await post(pair.url + CHAT, {})).status).toBe(200);
});

test("a draining route finishes its streams, closes idle connections at once and rejects other requests", async () => {
  const stream = steppedStream();
  await using pair = await startPair({}, stream.listener);
  const idle = await openRaw(pair.port);
  idle.socket.write("GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
  await until(() => expect(idle.text).toContain('"ok"'));
  const opened = stream.next();
  const busy = await openRaw(pair.port);
  busy.socket.write(SHORT);
  const response = await opened;
  response.write("data: 1\n\n");
  await until(() => expect(busy.text).toContain("data: 1"));

  pair.server.update({ ...pair.route, state: "draining" });
  await until(() => expect(idle.isEnded).toBe(true));
  const refused = await post(pair.url + CHAT, { padding: "x".repeat(100_000) });
  expect([refused.status, refused.headers.get("retry-after"), refused.headers.get("connection")]).toEqual([
    503,
    "2",
    "close",
  ]);
  await until(() => expect(pair.server.status()).toMatchObject({ inFlight: 1, connections: 1 }));
  response.end("data: [DONE]\n\n");
  await until(() => expect(busy.isEnded).toBe(true));
  expect(busy.text).toMatch(/\[DONE\]\n\n\r\n0\r\n\r\n$/);
  await until(() => expect(pair.server.status()).toMatchObject({ inFlight: 0, connections: 0 }));
  expect(pair.counters).toMatchObject({ requests: { 200: 2, 503: 1 }, refused: { draining: 1 } });
});

test("a request whose body is still coming when the drain begins is finished", async () => {
  await using pair = await startPair();
  const raw = await openRaw(pair.port);
  raw.socket.write(`POST ${CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\n\r\n{"a"`);
  await until(() => expect(pair.server.status().inFlight).toBe(1));
  pair.server.update({ ...pair.route, state: "draining" });
  raw.socket.write(":1}");
  await until(() => expect(raw.text).toMatch(/^HTTP\/1\.1 200[\s\S]*got/));
});

test("kept-alive clients lose nothing when their endpoint leaves, is drained and ends", async () => {
  await using daemon = await startDaemon();
  await using first = await startRoute(routeTo(daemon.port));
  await using second = await startRoute(routeTo(daemon.port));
  let endpoint = first.port;
  let isOver = false;
  const failed: unknown[] = [];
  let answered = 0;
  const client = async (thinkMs: number) => {
    // As behind a Service: a connection stays where it is, a new one goes where the endpoint is now.
    const pool = new Agent({ keepAlive: true, maxSockets: 1 });
    const connectTo = pool.createConnection.bind(pool);
    pool.createConnection = (options: ClientRequestArgs, done) =>
      connectTo({ ...options, port: endpoint }, done);
    while (!isOver) {
      const status = await askOnce(pool).catch(String);
      if (status === 200) answered += 1;
      else failed.push(status);
      await new Promise((resolve) => setTimeout(resolve, thinkMs));
    }
    pool.destroy();
  };
  const clients = Array.from({ length: 16 }, (_, index) => client(index));
  await until(() => expect(answered).toBeGreaterThan(100));
  const route = routeTo(daemon.port);
  first.server.update({ ...route, state: "leaving" });
  await until(() => expect(first.server.status().connections).toBeLessThan(17));
  const before = answered;
  await until(() => expect(answered).toBeGreaterThan(before + 100));
  endpoint = second.port;
  await until(() => expect(second.server.status().connections).toBe(16));
  first.server.update({ ...route, state: "draining" });
  await until(() => expect(first.server.status()).toMatchObject({ inFlight: 0, connections: 0 }));
  first.server.end();
  const after = answered;
  await until(() => expect(answered).toBeGreaterThan(after + 100));
  isOver = true;
  await Promise.all(clients);
  expect(failed).toEqual([]);
});

function askOnce(agent: Agent): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const call = request({ host: "127.0.0.1", port: 1, path: CHAT, method: "POST", agent });
    call.once("response", (response) => {
      response.resume();
      once(response, "end").then(() => resolve(response.statusCode), reject);
    });
    call.once("error", reject);
    call.end("{}");
  });
}

test("a connection is idle only after its last answer was sent, so that a drain cuts no answer", async () => {
  const padding = "x".repeat(8 * 1024 ** 2 - 100);
  await using pair = await startPair({}, (_, response) => {
    response.end(JSON.stringify({ data: [], padding }));
  });
  const raw = await openRaw(pair.port);
  raw.socket.once("data", () => raw.socket.pause());
  raw.socket.write("GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n");
  await until(() => expect(raw.text).toMatch(/^HTTP\/1\.1 200/));
  // The gate has sent all of it, and the client has not read it yet.
  expect(pair.server.status().inFlight).toBe(1);
  pair.server.update({ ...pair.route, state: "draining" });
  raw.socket.resume();
  await until(() => expect(raw.isEnded).toBe(true));
  expect(raw.text.length).toBeGreaterThan(padding.length);
});

test("empty lines keep no connection open on a gate that has handed over", async () => {
  await using pair = await startPair({ limits: { idleMs: 300, headMs: 300 } });
  const [used, fresh] = await Promise.all([openRaw(pair.port), openRaw(pair.port)]);
  used.socket.write(SHORT);
  await until(() => expect(used.text).toContain("got"));
  pair.server.leave(false);
  const lines = setInterval(() => {
    for (const { socket } of [used, fresh]) socket.write("\r\n");
  }, 50);
  await until(() => expect(pair.server.status().connections).toBe(0));
  clearInterval(lines);
});
