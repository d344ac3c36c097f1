/** What one client may take of a route and of the gate, over real connections. */
import { connect } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { expect, test } from "vitest";
import { until } from "../../test/bed/until.ts";
import { BodyBudget } from "./body/budget.ts";
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

const MIB = 1024 ** 2;
/** Bytes that something still refers to. */
function arrayBuffers(): number {
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
  return process.memoryUsage().arrayBuffers;
}

const head = (length: number) => `POST ${CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\n`;

test("a body of countless members is rejected with its first part, and not stored", async () => {
  await using pair = await startPair();
  const raw = await openRaw(pair.port);
  raw.socket.write(`${head(63 * MIB)}{${'"a":1,'.repeat(10_000)}`);
  await until(() => expect(raw.text).toContain("it has more than 256 members"));
  expect(raw.text).toMatch(/^HTTP\/1.1 400/);
  expect(pair.bodies.bytes).toBe(0);
  expect(pair.daemon.received).toEqual([]);
  raw.socket.destroy();
});

test("a large body reaches the daemon unchanged in chunks of any size, and is not held while the daemon answers", async () => {
  const stream = steppedStream();
  await using daemon = await startDaemon();
  await using streaming = await startDaemon((request, response) => stream.listener(request, response));
  await using plain = await startRoute(routeTo(daemon.port));
  const image = "A".repeat(3 * MIB);
  expect((await post(plain.url + CHAT, { image, nested: [{ image: '\\"}' }] })).status).toBe(200);
  expect(JSON.parse(daemon.received[0]?.body ?? "")).toEqual({
    model: "hf.co/org/model:Q4",
    image,
    nested: [{ image: '\\"}' }],
  });
  await using slow = await startRoute(routeTo(streaming.port));
  const opened = stream.next();
  const answer = post(slow.url + CHAT, { image });
  const response = await opened;
  await until(() => expect(slow.bodies.bytes).toBe(0));
  expect(slow.server.status().inFlight).toBe(1);
  response.end();
  expect((await answer).status).toBe(200);
});

test.each([
  ["while it is answered", '"}', ""],
  ["once it is refused, although more of it may come", '"}x', "not_json"],
])("a body takes no memory %s", async (_, end, refusal) => {
  const stream = steppedStream();
  await using pair = await startPair({}, stream.listener);
  const before = arrayBuffers();
  const raw = await openRaw(pair.port);
  const part = Buffer.alloc(MIB, "A");
  const start = '{"image":"';
  // The refused one is not complete.
  raw.socket.write(head(start.length + 32 * MIB + end.length + refusal.length) + start);
  for (let sent = 0; sent < 32; sent += 1) raw.socket.write(part);
  raw.socket.write(end);
  await until(() => expect(raw.text).toContain(refusal === "" ? "event-stream" : refusal));
  await until(() => expect(arrayBuffers() - before).toBeLessThan(4 * MIB));
  raw.socket.destroy();
});

test("slow clients with large bodies are evicted for another client, which gets its answer", async () => {
  const clock = { now: 0 };
  const limits = { totalBytes: 4 * MIB, routeBytes: 2 * MIB, ownBytes: MIB / 4, protectedMs: 10_000 };
  await using daemon = await startDaemon();
  await using gate = await startRoute(routeTo(daemon.port), new BodyBudget(limits, () => clock.now));
  const slow = await Promise.all(Array.from({ length: 4 }, () => openRaw(gate.port)));
  const sent = `{"image":"${"A".repeat(400 * 1024)}`;
  for (const { socket } of slow) socket.write(head(MIB) + sent);
  await until(() => expect(gate.bodies.bytes).toBeGreaterThanOrEqual(4 * sent.length));
  const body = { image: "A".repeat(MIB) };
  expect((await post(gate.url + CHAT, body)).status).toBe(503);
  clock.now = 10_000;
  expect((await post(gate.url + CHAT, body)).status).toBe(200);
  const refused = slow.filter(({ text }) => text.startsWith("HTTP/1.1 503"));
  expect(refused.length).toBeGreaterThan(0);
  expect(refused[0]?.text).toContain("came too slowly");
  for (const { socket } of slow) socket.destroy();
});

test("a route keeps its guaranteed memory while other routes use theirs", async () => {
  const limits = { totalBytes: MIB, routeBytes: MIB, ownBytes: 64 * 1024, protectedMs: 60_000 };
  const bodies = new BodyBudget(limits);
  bodies.open("another").take(MIB);
  await using daemon = await startDaemon();
  await using gate = await startRoute(routeTo(daemon.port), bodies);
  expect((await post(gate.url + CHAT, { prompt: "x".repeat(20 * 1024) })).status).toBe(200);
  expect((await post(gate.url + CHAT, { prompt: "x".repeat(200 * 1024) })).status).toBe(503);
});

test("more requests at once than the limit are 503, those of one connection included", async () => {
  const limit = fc.integer({ min: 1, max: 6 });
  await fc.assert(
    fc.asyncProperty(limit, fc.integer({ min: 1, max: 4 }), async (requests, more) => {
      const stream = steppedStream();
      await using pair = await startPair({ limits: { requests } }, stream.listener);
      const raw = await openRaw(pair.port);
      raw.socket.write(`${head(2)}{}`.repeat(requests));
      await until(() => expect(stream.open).toHaveLength(requests));
      const refused = await Promise.all(Array.from({ length: more }, () => post(pair.url + CHAT, {})));
      for (const { status, headers } of refused)
        expect([status, headers.get("retry-after")]).toEqual([503, "2"]);
      expect(pair.counters.refused).toEqual({ busy: more });
      expect(stream.open).toHaveLength(requests);
      raw.socket.destroy();
    }),
    { numRuns: 10 },
  );
});

test("a connection that keeps sending without reading its answers is closed, and costs little until then", async () => {
  await using pair = await startPair({ keyFiles: [] });
  const raw = await openRaw(pair.port);
  raw.socket.write("GET /x HTTP/1.1\r\nHost: x\r\n\r\n".repeat(2_000));
  await until(() => expect(raw.socket.destroyed).toBe(true));
  expect(pair.counters.refused).toMatchObject({ unauthorized: 8, pipelined: expect.any(Number) });
  await until(() => expect(pair.server.status()).toMatchObject({ inFlight: 0, connections: 0 }));
});

test.each([
  ["an unknown expectation", "GET /health HTTP/1.1\r\nHost: x\r\nExpect: y\r\n\r\n", "417", "expectation"],
  ["no Host", "GET /health HTTP/1.1\r\n\r\n", "400", "malformed"],
])("requests with %s are refused under the limits of all others", async (_, text, status, reason) => {
  await using pair = await startPair();
  expect(await statusFor(pair.port, text)).toMatch(status);
  expect(pair.counters.refused).toEqual({ [reason]: 1 });
  await until(() => expect(pair.counters.requests).toEqual({ [status]: 1 }));
  const raw = await openRaw(pair.port);
  raw.socket.write(text.repeat(2_000));
  await until(() => expect(raw.socket.destroyed).toBe(true));
  expect(pair.counters.refused).toMatchObject({ pipelined: expect.any(Number) });
  expect(pair.counters.refused[reason]).toBeLessThan(20);
});

test("unread answers of the gate itself do not occupy slots for long", async () => {
  await using pair = await startPair({ keyFiles: [], limits: { unreadMs: 200 } });
  const raw = await openRaw(pair.port);
  raw.socket.pause();
  const target = `/${"x".repeat(8_000)}`;
  // Until neither side's buffers take more.
  const fill = async (): Promise<void> => {
    for (let sent = 0; !raw.socket.destroyed && sent < 20_000; sent += 1) {
      const isTaken = raw.socket.write(`GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`);
      if (!isTaken) await new Promise((resolve) => raw.socket.once("drain", resolve).once("close", resolve));
    }
  };
  void fill();
  await until(() => expect(pair.server.status().connections).toBe(0));
  expect(pair.server.status().inFlight).toBe(0);
  raw.socket.destroy();
});

const inBytes = (line: string, count: number) =>
  `${line} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${"1\r\n \r\n".repeat(count)}`;

test("a body in chunks of one byte is refused, and its connection ends with that", async () => {
  await using pair = await startPair();
  const raw = await openRaw(pair.port);
  raw.socket.write(inBytes(`POST ${CHAT}`, 5_000));
  await until(() => expect(raw.isEnded).toBe(true));
  expect(raw.text).toContain("tiny_chunks");
  expect(pair.daemon.received).toEqual([]);
});

test.each([
  ["openai", `POST ${CHAT}`],
  ["openai", "POST /unknown"],
  ["openai", "GET /health"],
  ["openai", "GET /v1/models"],
  ["any", `POST ${CHAT}`],
] as const)("%s: %s with a body in more and more chunks of one byte is cut off", async (protocol, line) => {
  await using pair = await startPair({ protocol }, (request) => void request.resume());
  const raw = await openRaw(pair.port);
  raw.socket.write(inBytes(line, 20_000));
  await until(() => expect(raw.socket.destroyed).toBe(true));
});

test.each([
  ["a name of colons", { protocol: "ollama" as const }, `{"model":"${":".repeat(60_000)}/"}`, ""],
  ["a header of spaces", {}, "{}", `Connection: a${" ".repeat(15_000)}b\r\n`],
  ["a header of names", {}, "{}", `Connection: ${"a,".repeat(3_000)}\r\n${"b:\r\n".repeat(700)}`],
])("%s takes no time", async (_, changes, body, header) => {
  await using pair = await startPair(changes);
  const before = process.cpuUsage();
  const request = `POST ${CHAT} HTTP/1.1\r\nHost: x\r\n${header}Content-Length: ${body.length}\r\n\r\n${body}`;
  for (let count = 0; count < 10; count += 1)
    expect(await statusFor(pair.port, request)).toMatch(/^(200|404)/);
  const { user } = process.cpuUsage(before);
  // The slow ways took 150 ms to 3 s of each.
  expect(user / 10).toBeLessThan(75_000);
});

test("more connections at once than the limit are closed, and idle ones make room for new ones", async () => {
  await using pair = await startPair({ limits: { connections: 2 } });
  const idle = await Promise.all([openRaw(pair.port), openRaw(pair.port)]);
  for (const { socket } of idle) socket.write(`${head(2)}{}`);
  await until(() => expect(idle.map(({ text }) => text.startsWith("HTTP/1.1 200"))).toEqual([true, true]));
  const dropped = connect(pair.port, "127.0.0.1").on("error", () => undefined);
  await until(() => expect(dropped.destroyed).toBe(true));
  await until(() => expect(pair.server.status().connections).toBe(0));
  expect(await statusFor(pair.port, `${head(2)}{}`)).toMatch("200");
});

test("a client that does not read its answer is disconnected", async () => {
  const stream = steppedStream();
  await using pair = await startPair({ limits: { unreadMs: 200 } }, stream.listener);
  const opened = stream.next();
  const raw = await openRaw(pair.port);
  raw.socket.pause();
  raw.socket.write(`${head(2)}{}`);
  const response = await opened;
  const block = Buffer.alloc(256 * 1024, "x");
  const write = (): void => {
    while (!response.destroyed && response.write(block)) {}
    response.once("drain", write);
  };
  write();
  await Promise.all(stream.closed);
  await until(() => expect(pair.counters.requests).toEqual({ 599: 1 }));
  raw.socket.destroy();
});
