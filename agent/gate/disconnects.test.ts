/** Clients that leave at any byte, and engines that end their connections and streams in their own ways. */
import type { RequestListener } from "node:http";
import type { Socket } from "node:net";
import fc from "fast-check";
import { expect, test } from "vitest";
import { until } from "../../test/bed/until.ts";
import { CHAT_PATH, openRaw, post, startPair } from "./fixtures/route.ts";

const BODY = '{"messages":[]}';
const REQUEST = `POST ${CHAT_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`;
const HEAD_BYTES = REQUEST.length - BODY.length;
const ANSWER = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\n{} \n";
const STREAM =
  "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n0\r\n\r\n";
const protocol = fc.constantFrom("openai" as const, "any" as const);
const isReset = fc.boolean();
const sum = (counts: Readonly<Record<string, number>>) =>
  Object.values(counts).reduce((all, one) => all + one, 0);
const write = (socket: Socket, text: string) => new Promise((sent) => socket.write(text, sent));
const leave = (socket: Socket, reset: boolean) => (reset ? socket.resetAndDestroy() : socket.destroy());

/** An engine that sends `text` and no more; `open` are its unfinished requests. */
function engineSending(text: string) {
  const open = new Set<Socket>();
  let sent = (): void => {};
  const isSent = new Promise<void>((resolve) => {
    sent = resolve;
  });
  const listener: RequestListener = (request) => {
    const { socket } = request;
    open.add(socket);
    socket.once("close", () => open.delete(socket));
    request.on("error", () => undefined).resume();
    socket.write(text, sent);
  };
  return { open, listener, isSent };
}

test("a client that leaves after any byte of its request leaves no work, and is counted once", async () => {
  const offset = fc.integer({ min: 0, max: REQUEST.length });
  await fc.assert(
    fc.asyncProperty(offset, protocol, isReset, async (at, kind, reset) => {
      const engine = engineSending("");
      await using pair = await startPair({ protocol: kind }, engine.listener);
      const raw = await openRaw(pair.port);
      await write(raw.socket, REQUEST.slice(0, at));
      const isBegun = at >= HEAD_BYTES;
      if (isBegun) await until(() => expect(pair.server.status().inFlight).toBe(1), { everyMs: 1 });
      leave(raw.socket, reset);
      await until(() => expect(pair.server.status()).toMatchObject({ inFlight: 0, connections: 0 }), {
        everyMs: 1,
      });
      await until(() => expect(engine.open.size).toBe(0), { everyMs: 1 });
      expect(pair.counters.requests).toEqual(isBegun ? { 499: 1 } : {});
      expect(pair.bodies.bytes).toBe(0);
    }),
    { numRuns: 60 },
  );
});

test("a client that leaves after any byte of its response leaves no work, and is counted once", async () => {
  const answer = fc.constantFrom(ANSWER, STREAM);
  await fc.assert(
    fc.asyncProperty(
      answer,
      fc.double({ min: 0, max: 1, noNaN: true }),
      isReset,
      async (text, share, reset) => {
        const engine = engineSending(text.slice(0, Math.floor(share * (text.length - 1))));
        await using pair = await startPair({ protocol: "any" }, engine.listener);
        const raw = await openRaw(pair.port);
        await write(raw.socket, REQUEST);
        await engine.isSent;
        leave(raw.socket, reset);
        await until(() => expect(pair.server.status()).toMatchObject({ inFlight: 0, connections: 0 }), {
          everyMs: 1,
        });
        await until(() => expect(engine.open.size).toBe(0), { everyMs: 1 });
        expect(sum(pair.counters.requests)).toBe(1);
      },
    ),
    { numRuns: 60 },
  );
});

test.each<[string, RequestListener]>([
  [
    "closes after each answer and announces it",
    (request, response) => {
      request.resume();
      response.setHeader("connection", "close");
      response.end("{}");
    },
  ],
  [
    "closes after each stream unannounced",
    (request, response) => {
      request.resume();
      response.setHeader("content-type", "text/event-stream");
      response.once("finish", () => setImmediate(() => request.socket.end()));
      response.end("data: {}\n\n");
    },
  ],
  [
    "streams an error after 200",
    (request, response) => {
      request.resume();
      response.setHeader("content-type", "text/event-stream");
      response.write("data: {}\n\n");
      response.end('data: {"error":{"message":"Compute error"}}\n\n');
    },
  ],
])("an engine that %s costs no request", async (_, listener) => {
  await using pair = await startPair({ protocol: "any" }, listener);
  const texts = new Set<string>();
  for (let count = 0; count < 20; count += 1) {
    const answer = await post(pair.url + CHAT_PATH, {});
    expect(answer.status).toBe(200);
    texts.add(await answer.text());
  }
  expect(texts.size).toBe(1);
  await until(() => expect(pair.counters.requests).toEqual({ 200: 20 }));
  expect(pair.server.status().inFlight).toBe(0);
});

test("a stream that ends before its request is whole arrives complete, and the next request is served", async () => {
  await using pair = await startPair({ protocol: "any" }, (request, response) => {
    request.resume();
    response.setHeader("content-type", "text/event-stream");
    response.end("data: [DONE]\n\n");
  });
  const raw = await openRaw(pair.port);
  const half = HEAD_BYTES + 4;
  raw.socket.write(REQUEST.slice(0, half));
  await until(() => expect(raw.text).toContain("[DONE]\n\n"));
  raw.socket.write(REQUEST.slice(half) + REQUEST);
  await until(() => expect(raw.text.match(/\[DONE\]/g)).toHaveLength(2));
  await until(() => expect(pair.server.status().inFlight).toBe(0));
  expect(pair.counters.requests).toEqual({ 200: 2 });
  raw.socket.destroy();
});
