import { EventEmitter } from "node:events";
import type { ServerResponse } from "node:http";
import { createParser, type EventSourceMessage } from "eventsource-parser";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Density } from "../../fitness/density/density.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { createWatches, Feed, WatchStream } from "./watches.ts";

/** A response whose client reads only when the test calls `read`. */
class Client extends EventEmitter {
  readonly events: EventSourceMessage[] = [];
  readonly #parser = createParser({ onEvent: (event) => void this.events.push(event) });
  destroyed = false;
  writableEnded = false;
  closed = false;
  /** Bytes that the client accepts before backpressure applies. */
  room = Number.POSITIVE_INFINITY;

  writeHead(): void {}
  write(bytes: Buffer | string): boolean {
    this.#parser.feed(String(bytes));
    this.room -= bytes.length;
    return this.room > 0;
  }
  end(bytes: Buffer | string = ""): void {
    this.#parser.feed(String(bytes));
    this.writableEnded = true;
    this.emit("close");
  }
  read(): void {
    this.room = Number.POSITIVE_INFINITY;
    this.emit("drain");
  }
  /** The rows that a client has after applying the events. */
  get state(): Record<string, unknown> {
    const rows: Record<string, unknown> = {};
    for (const { event, id, data } of this.events) {
      if (event === "put") rows[String(id)] = JSON.parse(data);
      if (event === "delete") delete rows[String(id)];
    }
    return rows;
  }
}

function fed(rows: Record<string, object>) {
  const source = { rows, computed: 0 };
  const feed = new Feed({
    answer: () => {
      source.computed += 1;
      return { status: 200, body: source.rows };
    },
    rowsOf: ({ body }) => new Map(Object.entries(body)),
  });
  const join = (room = Number.POSITIVE_INFINITY) => {
    const client = new Client();
    client.room = room;
    new WatchStream(client as unknown as ServerResponse, feed).start();
    return client;
  };
  return { source, feed, join };
}

/** The loops of the streams continue in microtasks. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

test("thirty clients of one query cause one computation per change, and a row is released once all have received it", async () => {
  const { source, feed, join } = fed({ a: { n: 1 }, b: { n: 1 } });
  const clients = Array.from({ length: 30 }, () => join());
  await settled();
  expect(feed.hasRows).toBe(false);
  const before = source.computed;
  source.rows = { a: { n: 2 }, c: { n: 1 } };
  feed.refresh();
  await settled();
  expect(source.computed - before).toBe(1);
  for (const { state } of clients) expect(state).toEqual(source.rows);
  expect(feed.hasRows).toBe(false);
});

test("a client that paused reading receives the current version of each row when it resumes", async () => {
  const { source, feed, join } = fed({ a: { n: 1 }, b: { n: 1 } });
  const slow = join(1);
  for (const n of [2, 3, 4]) {
    source.rows = { a: { n }, b: { n } };
    feed.refresh();
  }
  await settled();
  expect(slow.events).toHaveLength(1);
  slow.read();
  await settled();
  expect(slow.state).toEqual({ a: { n: 4 }, b: { n: 4 } });
  expect(slow.events.map(({ event }) => event)).toEqual(["put", "put", "put", "synced"]);
});

test("every client ends with the latest rows, for any sequence of changes and reads", async () => {
  const row = fc.dictionary(fc.constantFrom("a", "b", "c", "d"), fc.record({ n: fc.nat(3) }));
  const step = fc.oneof(
    fc.record({ do: fc.constant("change" as const), rows: row }),
    fc.record({ do: fc.constant("join" as const), room: fc.nat(200) }),
    fc.record({ do: fc.constant("read" as const), client: fc.nat(5) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
      const { source, feed, join } = fed({});
      const clients: Client[] = [];
      for (const one of steps) {
        if (one.do === "join") clients.push(join(one.room));
        else if (one.do === "read") clients[one.client]?.read();
        else {
          source.rows = one.rows;
          feed.refresh();
        }
        await settled();
      }
      for (const client of clients) client.read();
      await settled();
      for (const { state } of clients) expect(state).toEqual(source.rows);
      if (clients.length > 0) expect(feed.hasRows).toBe(false);
    }),
    { numRuns: 200 },
  );
});

test("no sequence of watches exceeds the limits, and closing a watch frees its slot", () => {
  const limits = { streams: 6, streamsOfUser: 3, queries: 4, queriesOfUser: 2 };
  const step = fc.record({ user: fc.constantFrom("a", "b", "c"), query: fc.nat(6), leave: fc.boolean() });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const watches = createWatches({
        density: { onChange: () => () => {} } as unknown as Density,
        clock: { ...systemClock, after: () => () => {} },
        limits,
      });
      const open: { readonly user: string; readonly query: string; readonly client: Client }[] = [];
      for (const { user, query: number, leave } of steps) {
        if (leave) open.shift()?.client.emit("close");
        const query = String(number);
        const own = open.filter((one) => one.user === user);
        const ownQueries = new Set(own.map((one) => one.query));
        const queries = new Set(open.map((one) => one.query));
        const opened = watches.open({
          query,
          user,
          isStillAllowed: async () => true,
          source: { answer: () => ({ status: 200, body: {} }), rowsOf: () => new Map() },
        });
        const isFull =
          open.length >= limits.streams ||
          own.length >= limits.streamsOfUser ||
          (!ownQueries.has(query) && ownQueries.size >= limits.queriesOfUser) ||
          (!queries.has(query) && queries.size >= limits.queries);
        expect(opened.at).toBe(isFull ? "full" : "open");
        if (opened.at !== "open") continue;
        const client = new Client();
        opened.start(client as unknown as ServerResponse);
        open.push({ user, query, client });
      }
      watches.close();
    }),
  );
});

test("watches that are opened together each get their own turn of the event loop", async () => {
  const density = { onChange: () => () => {} } as unknown as Density;
  const watches = createWatches({ density, clock: systemClock });
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  count();
  const seen = await Promise.all(Array.from({ length: 30 }, () => watches.turn().then(() => turns)));
  isOver = true;
  expect(new Set(seen).size).toBe(30);
  watches.close();
});

/** Time advances only when stepped, or by the duration of simulated work. */
function workClock() {
  let nowMs = 0;
  const waiting = new Set<{ readonly atMs: number; readonly fire: () => void }>();
  return {
    clock: {
      nowMs: () => nowMs,
      monotonicMs: () => nowMs,
      after: (delayMs: number, fire: () => void) => {
        const timer = { atMs: nowMs + delayMs, fire };
        waiting.add(timer);
        return () => void waiting.delete(timer);
      },
    },
    work: (ms: number) => (nowMs += ms),
    /** Fires expired timers in order; each refresh ends before time advances. */
    step: async (ms: number) => {
      const endMs = nowMs + ms;
      for (;;) {
        const [next] = [...waiting].filter(({ atMs }) => atMs <= endMs).sort((a, b) => a.atMs - b.atMs);
        if (next === undefined) break;
        waiting.delete(next);
        nowMs = Math.max(nowMs, next.atMs);
        next.fire();
        for (let turns = 0; turns < 4; turns += 1) await settled();
      }
      nowMs = Math.max(nowMs, endMs);
    },
  };
}

test("queries are computed at most a fifth of the time, no matter how often objects change", async () => {
  const costs = fc.array(fc.integer({ min: 0, max: 3_000 }), { minLength: 1, maxLength: 3 });
  const waits = fc.array(fc.integer({ min: 0, max: 4_000 }), { maxLength: 30, size: "max" });
  await fc.assert(
    fc.asyncProperty(costs, waits, async (queries, changes) => {
      const { clock, work, step } = workClock();
      let change = (): void => {};
      const density = {
        onChange: (listener: () => void) => {
          change = listener;
          return () => {};
        },
      };
      const watches = createWatches({ density: density as unknown as Density, clock });
      let [startMs, workedMs] = [0, 0];
      const shares: number[] = [];
      for (const [index, costMs] of queries.entries()) {
        const answer = () => {
          // A new round begins with the first query.
          if (index === 0 && workedMs > 0) shares.push(workedMs / (clock.nowMs() - startMs));
          workedMs += costMs;
          work(costMs);
          return { status: 200 as const, body: {} };
        };
        const isStillAllowed = async () => true;
        const watched = { query: `${index}`, user: "a", isStillAllowed };
        const opened = watches.open({ ...watched, source: { answer, rowsOf: () => new Map() } });
        if (opened.at === "open") opened.start(new Client() as unknown as ServerResponse);
      }
      // Computations for a client's first response do not count.
      [startMs, workedMs] = [clock.nowMs(), 0];
      for (const waitMs of changes) {
        change();
        await step(waitMs);
      }
      await step(60_000);
      watches.close();
      expect(Math.max(0, ...shares)).toBeLessThanOrEqual(1 / 5);
    }),
    { numRuns: 40 },
  );
});
