import { expect, test } from "vitest";
import type { ServedModel } from "../models/served-model.ts";
import { exampleModel } from "../testing/example-model.ts";
import { manualClock } from "../testing/manual-clock.ts";
import type { Share } from "./fair-queue.ts";
import { ModelQueue, type SlotRequest } from "./model-queue.ts";

const newShare = (flow = "key"): Share => ({ flow, weight: 1, priority: 0, user: undefined });

function rig(addresses: readonly string[], given: Partial<ServedModel> = {}) {
  const clock = manualClock();
  const queue = new ModelQueue(clock);
  queue.update(exampleModel(addresses, given), 1);
  const request = (rest: Partial<SlotRequest> = {}): SlotRequest => ({
    share: newShare(),
    affinity: undefined,
    deadlineMs: clock.monotonicMs() + 60_000,
    signal: new AbortController().signal,
    ...rest,
  });
  const release = (share: Share, address: string, hasFailed = false) => {
    if (hasFailed) queue.avoid(address);
    queue.release({ share, address, seconds: 1, hasFailed });
  };
  return { clock, queue, request, release };
}

test("a request gets a free slot at once, and the next one waits until it is released", async () => {
  const { queue, request, release } = rig(["a"]);
  const first = request();
  expect(queue.acquire(first)).toMatchObject({ at: "assigned", addresses: ["a"], waitedMs: 0 });
  const second = queue.acquire(request());
  expect(queue.waiting).toBe(1);
  release(first.share, "a");
  expect(await second).toMatchObject({ at: "assigned", addresses: ["a"] });
  expect(queue.waiting).toBe(0);
});

test("a held request goes to the first replica that becomes ready", async () => {
  const { clock, queue, request } = rig([]);
  const held = queue.acquire(request());
  clock.advance(5_000);
  queue.update(exampleModel(["a"]), 1);
  expect(await held).toEqual({ at: "assigned", addresses: ["a"], waitedMs: 5_000 });
});

test("a request that waits until its deadline learns its position", async () => {
  const { clock, queue, request } = rig(["a"]);
  void queue.acquire(request());
  void queue.acquire(request());
  const late = queue.acquire(request({ deadlineMs: 10_000 }));
  clock.advance(10_000);
  expect(await late).toEqual({ at: "timeout", position: 2 });
  expect(queue.waiting).toBe(1);
});

test("a request with a deadline of now is refused unless a slot is free", async () => {
  const { clock, queue, request } = rig(["a"]);
  expect(queue.acquire(request({ deadlineMs: 0 }))).toMatchObject({ at: "assigned" });
  const second = queue.acquire(request({ deadlineMs: 0 }));
  clock.advance(0);
  expect(await second).toMatchObject({ at: "timeout" });
});

test("a client that leaves gives up its place", async () => {
  const { queue, request } = rig([]);
  const client = new AbortController();
  const held = queue.acquire(request({ signal: client.signal }));
  client.abort();
  expect(await held).toEqual({ at: "left" });
  expect(queue.waiting).toBe(0);
});

test("a model that is stopped or deleted refuses what waits", async () => {
  const { queue, request } = rig([]);
  const held = queue.acquire(request());
  queue.update(exampleModel([], { state: "off" }), 1);
  expect(await held).toEqual({ at: "off" });
  expect(queue.acquire(request())).toEqual({ at: "off" });
});

const BATCH = 0;
const NORMAL = 2;
const CRITICAL = 4;
type Flood = readonly (readonly [count: number, share: Partial<Share>])[];

/** `count` requests of each share, in turn. Returns how many of each wait at the end, and how many were refused. */
async function flooded(given: Flood) {
  const { queue, request } = rig(["a"]);
  void queue.acquire(request({ share: newShare("running") }));
  const refused: Share[] = [];
  for (const [count, share] of given)
    for (let index = 0; index < count; index += 1) {
      const one = { ...newShare(), priority: NORMAL, ...share };
      void Promise.resolve(queue.acquire(request({ share: one }))).then(({ at }) => {
        if (at === "full") refused.push(one);
      });
    }
  await new Promise(setImmediate);
  expect(queue.waiting).toBe(256);
  const countsOf = (shares: Iterable<{ flow: string; user: string | undefined }>) => {
    const counts: Record<string, number> = {};
    for (const { flow, user } of shares) counts[user ?? flow] = (counts[user ?? flow] ?? 0) + 1;
    return counts;
  };
  return { waiting: countsOf(queue.order()), refused: countsOf(refused) };
}

test.each<[string, Flood, Record<string, number>]>([
  ["its newest one, if it fills the queue alone", [[300, { flow: "a" }]], { a: 256 }],
  [
    "the newest of the key with most requests",
    [
      [600, { flow: "a" }],
      [3, { flow: "b" }],
      [1, { flow: "c", priority: CRITICAL }],
    ],
    { a: 252, b: 3, c: 1 },
  ],
  [
    "a new one of a key that has as many as others",
    [
      [128, { flow: "a" }],
      [200, { flow: "b" }],
    ],
    { a: 128, b: 128 },
  ],
  [
    "one of the lowest priority, for a key of a higher one that has more",
    [
      [200, { flow: "a", priority: CRITICAL }],
      [56, { flow: "b", priority: BATCH }],
      [50, { flow: "a", priority: CRITICAL }],
    ],
    { a: 250, b: 6 },
  ],
  [
    "a new one of a lower priority than all others",
    [
      [300, { flow: "a" }],
      [1, { flow: "b", priority: BATCH }],
    ],
    { a: 256 },
  ],
  [
    "the newest of the user with most requests behind that key",
    [
      [300, { flow: "webui", user: "ann" }],
      [2, { flow: "webui", user: "bob" }],
      [1, { flow: "other" }],
    ],
    { ann: 253, bob: 2, other: 1 },
  ],
])("a full queue refuses %s", async (_, given, expected) => {
  const { waiting, refused } = await flooded(given);
  expect(waiting).toEqual(expected);
  const sent: Record<string, number> = {};
  for (const [count, { flow = "", user = flow }] of given) sent[user] = (sent[user] ?? 0) + count;
  for (const [name, count] of Object.entries(sent))
    expect((waiting[name] ?? 0) + (refused[name] ?? 0)).toBe(count);
});

test("one long request among short ones hardly changes the expected wait", () => {
  const { queue, request } = rig(["a"]);
  for (let index = 0; index < 200; index += 1) {
    const share = newShare();
    void queue.acquire(request({ share }));
    queue.release({ share, address: "a", seconds: 0.0625, hasFailed: false });
  }
  const share = newShare();
  void queue.acquire(request({ share }));
  queue.release({ share, address: "a", seconds: 5, hasFailed: false });
  for (let index = 0; index < 257; index += 1) void queue.acquire(request());
  expect(queue.expectedWaitSeconds()).toBeGreaterThan(16);
  expect(queue.expectedWaitSeconds()).toBeLessThan(48);
});

test("the first requests that end replace the first estimate", () => {
  const { queue, request } = rig(["a"]);
  for (const seconds of [8, 10]) {
    const share = newShare();
    void queue.acquire(request({ share }));
    queue.release({ share, address: "a", seconds, hasFailed: false });
  }
  expect(queue.meanSeconds).toBe(9);
});

test("several gateways share the slots of a replica", () => {
  const { queue, request } = rig([]);
  queue.update(exampleModel(["a"], { slots: 4 }), 2);
  for (let index = 0; index < 2; index += 1)
    expect(queue.acquire(request())).toMatchObject({ at: "assigned" });
  void queue.acquire(request());
  expect(queue.waiting).toBe(1);
});

test("a replica whose connection failed is tried last for a while", () => {
  const { clock, queue, request, release } = rig(["a", "b"], { slots: 4 });
  const first = request();
  expect(queue.acquire(first)).toMatchObject({ addresses: ["a", "b"] });
  release(first.share, "a", true);
  expect(queue.acquire(request())).toMatchObject({ addresses: ["b"] });
  clock.advance(5_000);
  expect(queue.acquire(request())).toMatchObject({ addresses: ["a", "b"] });
});

test("keys alternate while both wait", async () => {
  const { queue, request, release } = rig(["a"]);
  const running = request();
  void queue.acquire(running);
  const order: string[] = [];
  const ask = (flow: string) => {
    const one = request({ share: newShare(flow) });
    const done = Promise.resolve(queue.acquire(one)).then(() => {
      order.push(flow);
      release(one.share, "a");
    });
    return done;
  };
  const all = [ask("many"), ask("many"), ask("many"), ask("one"), ask("one")];
  release(running.share, "a");
  await Promise.all(all);
  expect(order.slice(0, 4).filter((flow) => flow === "one")).toHaveLength(2);
});

test("slots that were free are not counted against the key and the user who used them", async () => {
  for (const [busy, other] of [
    [newShare("busy"), newShare("other")],
    [
      { ...newShare(), user: "busy" },
      { ...newShare(), user: "other" },
    ],
  ] as const) {
    const { queue, request, release } = rig(["a"]);
    for (let count = 0; count < 50; count += 1) {
      const share = { ...busy };
      expect(queue.acquire(request({ share }))).toMatchObject({ at: "assigned" });
      release(share, "a");
    }
    const first = { ...other };
    void queue.acquire(request({ share: first }));
    const served: Share[] = [];
    for (const share of [{ ...other }, { ...other }, { ...other }, { ...other }, { ...busy }])
      void Promise.resolve(queue.acquire(request({ share }))).then(() => {
        served.push(share);
        release(share, "a");
      });
    release(first, "a");
    await new Promise(setImmediate);
    const nameOf = ({ flow, user }: Share) => user ?? flow;
    expect(served.map(nameOf).indexOf("busy")).toBeLessThanOrEqual(1);
  }
});
