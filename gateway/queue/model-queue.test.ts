import { expect, test } from "vitest";
import type { ServedModel } from "../models/served-model.ts";
import { exampleModel } from "../testing/example-model.ts";
import { manualClock } from "../testing/manual-clock.ts";
import type { Share } from "./fair-queue.ts";
import { ModelQueue, type SlotRequest } from "./model-queue.ts";

const newShare = (flow = "key"): Share => ({ flow, weight: 1, priority: 0, person: undefined });

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
  const release = (share: Share, address: string, hasFailed = false) =>
    queue.release({ share, address, seconds: 1, hasFailed });
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

test("a full queue refuses at once", () => {
  const { queue, request } = rig(["a"]);
  for (let index = 0; index < 257; index += 1) void queue.acquire(request());
  expect(queue.acquire(request())).toEqual({ at: "full", waiting: 256 });
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

test("slots that were free are not counted against the key and the person who used them", async () => {
  for (const [busy, other] of [
    [newShare("busy"), newShare("other")],
    [
      { ...newShare(), person: "busy" },
      { ...newShare(), person: "other" },
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
    const nameOf = ({ flow, person }: Share) => person ?? flow;
    expect(served.map(nameOf).indexOf("busy")).toBeLessThanOrEqual(1);
  }
});
