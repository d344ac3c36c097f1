import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { StreamEvent, Topic } from "../../../src/console/protocol.ts";
import type { Batch } from "./messages.ts";
import { Outbox } from "./outbox.ts";
import { LiveStream } from "./stream.ts";

const START_MS = Date.parse("2026-11-27T20:00:00Z");

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date", "performance"], now: START_MS });
  // Without jitter.
  vi.spyOn(Math, "random").mockReturnValue(0.5);
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);
/** Runs what is due without time. */
const settled = () => pass(0);

/** A connection that the browser has opened. */
class Connection {
  readonly atMs = Date.now() - START_MS;
  readonly topics: string;
  readonly response: Response;
  #body: ReadableStreamDefaultController<Uint8Array> | undefined;

  constructor(url: string, signal: AbortSignal) {
    this.topics = new URL(url, "http://console").searchParams.get("topics") ?? "";
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#body = controller;
      },
    });
    this.response = new Response(body);
    signal.addEventListener("abort", () => this.#body?.error(signal.reason));
  }

  async write(bytes: Uint8Array): Promise<void> {
    this.#body?.enqueue(bytes);
    await settled();
  }

  send({ event, data }: StreamEvent): Promise<void> {
    return this.write(bytesOf({ event, data } as StreamEvent));
  }

  hello(): Promise<void> {
    return this.send({ event: "hello", data: { id: "s1", nowMs: Date.now() } });
  }

  async end(): Promise<void> {
    this.#body?.close();
    await settled();
  }
}

function bytesOf({ event, data }: StreamEvent): Uint8Array {
  return new TextEncoder().encode(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
}

/** The stream of a page that takes every batch, and a network in place of the browser's. */
function openStream(topics: readonly Topic[] = ["hosts"]) {
  const connections: Connection[] = [];
  const announced: string[] = [];
  const answers: { get: (() => Response) | undefined; post: () => Response | Promise<Response> } = {
    get: undefined,
    post: () => new Response(null, { status: 204 }),
  };
  vi.stubGlobal("fetch", async (url: string, { method, body, signal }: RequestInit) => {
    if (method === "POST") {
      announced.push(String(body));
      return answers.post();
    }
    const connection = new Connection(url, signal as AbortSignal);
    connections.push(connection);
    return answers.get?.() ?? connection.response;
  });
  const batches: Batch[] = [];
  const stream = new LiveStream();
  const outbox: Outbox = new Outbox((batch) => {
    batches.push(batch);
    queueMicrotask(() => outbox.next());
  });
  stream.add(outbox);
  stream.show(outbox, topics);
  return {
    stream,
    outbox,
    connections,
    announced,
    answers,
    /** The newest connection. */
    newest: () => connections.at(-1) as Connection,
    takeTopics: () => batches.splice(0).flatMap((batch) => batch.topics),
    takeLinks: () => batches.splice(0).flatMap(({ link }) => link ?? []),
  };
}

const rows = (set: readonly (readonly [string, unknown])[], more: object = {}): StreamEvent => ({
  event: "rows",
  data: { topic: "hosts", set, gone: [], ...more },
});

test("events arrive whole wherever their bytes were cut, even inside of a character", async () => {
  const { newest, takeTopics } = openStream();
  await settled();
  await newest().hello();
  takeTopics();
  const set = [["host/mac-1", { name: "Büro 🦙" }]] as const;
  for (const byte of bytesOf(rows(set, { isAll: true }))) await newest().write(Uint8Array.of(byte));
  await newest().write(
    Uint8Array.of(...bytesOf(rows([["host/mac-2", 1]])), ...bytesOf(rows([["host/mac-3", 1]]))),
  );
  expect(takeTopics()).toEqual([
    { topic: "hosts", isAll: true, set, gone: [] },
    {
      topic: "hosts",
      isAll: false,
      set: [
        ["host/mac-2", 1],
        ["host/mac-3", 1],
      ],
      gone: [],
    },
  ]);
});

test("rows stay while the connection is lost, until all new ones have arrived", async () => {
  const { connections, newest, takeTopics, takeLinks } = openStream(["hosts", "models"]);
  await settled();
  await newest().hello();
  await newest().send(
    rows(
      [
        ["host/old", 1],
        ["host/both", 1],
      ],
      { isAll: true },
    ),
  );
  takeTopics();
  await newest().end();
  const why = "the server closed the connection";
  expect(takeLinks()).toEqual([{ at: "reconnecting", sinceMs: START_MS, why }]);
  await pass(250);
  expect(connections.map(({ topics }) => topics)).toEqual(["hosts,models", "hosts,models"]);
  await newest().hello();
  expect(takeLinks()).toEqual([{ at: "live" }]);
  await newest().send(rows([["host/both", 2]], { isAll: true, hasMore: true }));
  expect(takeTopics()).toEqual([]);
  await newest().send(rows([["host/new", 2]]));
  const set = [
    ["host/both", 2],
    ["host/new", 2],
  ];
  expect(takeTopics()).toEqual([{ topic: "hosts", isAll: true, set, gone: [] }]);
});

test("what a lost connection had sent of a list is not mixed with the next one", async () => {
  const { newest, takeTopics } = openStream();
  await settled();
  await newest().hello();
  await newest().send(rows([["host/a", 1]], { isAll: true }));
  await newest().send(rows([["host/cut-off", 2]], { isAll: true, hasMore: true }));
  await newest().end();
  await pass(250);
  await newest().hello();
  takeTopics();
  await newest().send(rows([["host/a", 3]], { isAll: true }));
  expect(takeTopics()).toEqual([{ topic: "hosts", isAll: true, set: [["host/a", 3]], gone: [] }]);
});

test("the time between attempts doubles up to 8 s, and is short again after a connection", async () => {
  const { connections, answers, newest } = openStream();
  answers.get = () => new Response(null, { status: 503 });
  await pass(31_750);
  expect(connections.map(({ atMs }) => atMs)).toEqual([
    0, 250, 750, 1_750, 3_750, 7_750, 15_750, 23_750, 31_750,
  ]);
  answers.get = undefined;
  await pass(8_000);
  await newest().hello();
  await newest().end();
  await pass(250);
  expect(connections.slice(-2).map(({ atMs }) => atMs)).toEqual([39_750, 40_000]);
});

test("a changed session or a network that is back connects at once", async () => {
  const { stream, connections, answers } = openStream();
  answers.get = () => new Response(null, { status: 503 });
  await pass(20_000);
  const { length } = connections;
  stream.reconnect();
  await settled();
  expect(connections).toHaveLength(length + 1);
});

test("a server that is silent for 40 s counts as lost; a beat keeps the connection", async () => {
  const { connections, newest, takeLinks } = openStream();
  await settled();
  await newest().hello();
  await pass(39_000);
  await newest().send({ event: "beat", data: { nowMs: Date.now() } });
  await pass(39_999);
  takeLinks();
  expect(connections).toHaveLength(1);
  await pass(1);
  expect(takeLinks()).toMatchObject([{ at: "reconnecting", why: "no answer" }]);
  await pass(250);
  expect(connections).toHaveLength(2);
});

test("a reader who is signed out keeps the rows, is asked to sign in, and is connected after that", async () => {
  const { stream, answers, newest, takeTopics, takeLinks } = openStream();
  await settled();
  await newest().hello();
  await newest().send(rows([["host/a", 1]], { isAll: true }));
  takeTopics();
  await newest().send({
    event: "refused",
    data: { topic: "hosts", code: "SignInNeeded", message: "expired" },
  });
  answers.get = () => new Response(null, { status: 401 });
  await newest().end();
  expect(takeLinks()).toEqual([{ at: "signed-out" }]);
  await pass(60_000);
  expect(takeTopics()).toEqual([]);
  answers.get = undefined;
  stream.reconnect();
  await settled();
  await newest().hello();
  expect(takeLinks()).toEqual([{ at: "live" }]);
});

test("the rows of a reader who has signed out are not shown to the next one", async () => {
  const { stream, outbox, newest, takeTopics } = openStream();
  await settled();
  await newest().hello();
  await newest().send(rows([["host/secret", 1]], { isAll: true }));
  takeTopics();
  stream.forget();
  await settled();
  // Its objects are not deleted, but hidden.
  const hidden = { isAll: true, set: [], gone: [], refusal: { code: "SignInNeeded" } };
  expect(takeTopics()).toMatchObject([{ topic: "hosts", ...hidden }]);
  stream.show(outbox, ["hosts", "models"]);
  await settled();
  expect(takeTopics()).toEqual([]);
});

test("a page that is left keeps its rows for 30 s, so that the way back is instant", async () => {
  const { stream, outbox, announced, newest, takeTopics } = openStream();
  await settled();
  await newest().hello();
  await newest().send(rows([["host/a", 1]], { isAll: true }));
  stream.show(outbox, ["models"]);
  await settled();
  takeTopics();
  stream.show(outbox, ["hosts"]);
  await settled();
  expect(takeTopics()).toEqual([{ topic: "hosts", isAll: true, set: [["host/a", 1]], gone: [] }]);
  expect(announced).toEqual([JSON.stringify({ topics: ["hosts", "models"] })]);
  await pass(30_000);
  await newest().send({ event: "beat", data: { nowMs: Date.now() } });
  expect(announced.at(-1)).toBe(JSON.stringify({ topics: ["hosts"] }));
});

test("the next page with a topic that was refused shows the refusal, which the server sends once", async () => {
  const { stream, outbox, newest, takeTopics } = openStream();
  await settled();
  await newest().hello();
  const refusal = { code: "ApiForbidden", message: "You may not list hosts." };
  await newest().send({ event: "refused", data: { topic: "hosts", ...refusal } });
  const refused = { topic: "hosts", isAll: true, set: [], gone: [], refusal };
  expect(takeTopics()).toEqual([refused]);
  stream.show(outbox, ["models"]);
  stream.show(outbox, ["models", "hosts"]);
  await settled();
  expect(takeTopics()).toEqual([refused]);
  await newest().send(rows([["host/a", 1]], { isAll: true }));
  takeTopics();
  stream.show(outbox, ["models"]);
  stream.show(outbox, ["hosts"]);
  await settled();
  expect(takeTopics()).toEqual([{ topic: "hosts", isAll: true, set: [["host/a", 1]], gone: [] }]);
});

test("a stream that the server does not know any more is opened again with all topics", async () => {
  const { stream, outbox, connections, answers, newest } = openStream();
  await settled();
  await newest().hello();
  answers.post = () => new Response(null, { status: 404 });
  stream.show(outbox, ["hosts", "models"]);
  await pass(250);
  expect(connections.map(({ topics }) => topics)).toEqual(["hosts", "hosts,models"]);
});

test("topics are announced one set after another, and of those that came meanwhile only the last", async () => {
  const { stream, outbox, announced, answers, newest } = openStream();
  await settled();
  await newest().hello();
  const waiting: PromiseWithResolvers<Response>[] = [];
  answers.post = () => {
    const answer = Promise.withResolvers<Response>();
    waiting.push(answer);
    return answer.promise;
  };
  const shown = () => announced.map((text) => JSON.parse(text).topics);
  for (const topics of [["models"], ["services"], ["farm"]] as const) stream.show(outbox, topics);
  await settled();
  expect(shown()).toEqual([["hosts", "models"]]);
  waiting[0]?.resolve(new Response(null, { status: 204 }));
  await settled();
  expect(shown().slice(1)).toEqual([["farm", "hosts", "models"]]);
  waiting[1]?.resolve(new Response(null, { status: 204 }));
  await settled();
  expect(announced).toHaveLength(2);
});

test("a page that takes no batches, because its tab is hidden, gets each row once in its latest state", async () => {
  const { stream, newest } = openStream();
  await settled();
  await newest().hello();
  const batches: Batch[] = [];
  const hidden = new Outbox((batch) => batches.push(batch));
  stream.add(hidden);
  stream.show(hidden, ["hosts"]);
  for (let version = 0; version < 50; version += 1) await newest().send(rows([["host/a", version]]));
  expect(batches).toHaveLength(1);
  hidden.next();
  expect(batches.slice(1)).toMatchObject([{ topics: [{ set: [["host/a", 49]] }] }]);
});
