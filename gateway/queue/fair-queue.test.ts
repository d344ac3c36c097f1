import fc from "fast-check";
import { expect, test } from "vitest";
import { FairQueue, type Share } from "./fair-queue.ts";

const share = (flow: string, given: Partial<Share> = {}): Share => ({
  flow,
  weight: 1,
  priority: 0,
  user: undefined,
  ...given,
});

/** Serves `count` requests of one slot, while every flow has requests waiting. Counts those of each. */
function serve(shares: readonly Share[], count: number, seconds: (share: Share) => number = () => 1) {
  const queue = new FairQueue<Share>();
  const served = new Map<Share, number>(shares.map((one) => [one, 0]));
  for (const one of shares) for (let index = 0; index < 3; index += 1) queue.push({ share: one, item: one });
  for (let index = 0; index < count; index += 1) {
    const next = queue.next(1);
    if (next === undefined) throw new Error("the queue is empty");
    served.set(next.item, (served.get(next.item) ?? 0) + 1);
    queue.charge(next.share, seconds(next.item) - 1);
    queue.push({ share: next.item, item: next.item });
  }
  return [...served.values()];
}

test("keys get slots in proportion to their weights", () => {
  expect(serve([share("a"), share("b", { weight: 3 })], 400)).toEqual([100, 300]);
});

test("a key whose requests take longer gets fewer of them", () => {
  const [short = 0, long = 0] = serve([share("short"), share("long")], 400, ({ flow }) =>
    flow === "long" ? 3 : 1,
  );
  expect(short / long).toBeCloseTo(3, 1);
});

test("users behind one key share its part", () => {
  const ann = share("webui", { user: "ann" });
  const bob = share("webui", { user: "bob" });
  expect(serve([ann, bob, share("other")], 400)).toEqual([100, 100, 200]);
});

test("a higher priority is served first", () => {
  const queue = new FairQueue<string>();
  queue.push({ share: share("batch", { priority: 0 }), item: "batch" });
  queue.push({ share: share("chat", { priority: 2 }), item: "chat" });
  expect(queue.next(1)?.item).toBe("chat");
  expect(queue.next(1)?.item).toBe("batch");
  expect(queue.next(1)).toBeUndefined();
});

test("a key that comes back after a pause saves up no turns", () => {
  const queue = new FairQueue<string>();
  const [busy, back] = [share("busy"), share("back")];
  for (let index = 0; index < 150; index += 1) queue.push({ share: busy, item: "busy" });
  for (let index = 0; index < 100; index += 1) queue.next(1);
  for (let index = 0; index < 50; index += 1) queue.push({ share: back, item: "back" });
  const next = Array.from({ length: 20 }, () => queue.next(1)?.item);
  expect(next.filter((item) => item === "back")).toHaveLength(10);
});

test("a user who comes back after a pause saves up no turns", () => {
  const queue = new FairQueue<string>();
  const [busy, back] = [share("key", { user: "busy" }), share("key", { user: "back" })];
  for (let index = 0; index < 150; index += 1) queue.push({ share: busy, item: "busy" });
  for (let index = 0; index < 100; index += 1) queue.next(1);
  for (let index = 0; index < 50; index += 1) queue.push({ share: back, item: "back" });
  const next = Array.from({ length: 20 }, () => queue.next(1)?.item);
  expect(next.filter((item) => item === "back")).toHaveLength(10);
});

test("one client that waits for each response gets as many turns as a hundred that do not", () => {
  const queue = new FairQueue<string>();
  const [one, many] = [share("one"), share("many")];
  for (let index = 0; index < 100; index += 1) queue.push({ share: many, item: "many" });
  queue.push({ share: one, item: "one" });
  const served = { one: 0, many: 0 };
  for (let index = 0; index < 200; index += 1) {
    const item = queue.next(1)?.item === "one" ? "one" : "many";
    served[item] += 1;
    // The next request of the single client arrives one turn later.
    queue.push(item === "many" ? { share: many, item } : { share: many, item: "many" });
    if (item === "many" && !queue.order(1).some((waiting) => waiting.item === "one"))
      queue.push({ share: one, item: "one" });
  }
  expect(served.one).toBeGreaterThanOrEqual(95);
});

test("a removed request is not served, and removing it twice changes nothing", () => {
  const queue = new FairQueue<string>();
  const waiting = { share: share("a"), item: "a" };
  queue.push(waiting);
  expect(queue.remove(waiting)).toBe(true);
  expect(queue.remove(waiting)).toBe(false);
  expect(queue.size).toBe(0);
  expect(queue.next(1)).toBeUndefined();
});

test("the order is the one in which requests are served, and asking for it changes nothing", () => {
  const shares = fc.record({
    flow: fc.constantFrom("a", "b", "c"),
    weight: fc.integer({ min: 1, max: 5 }),
    priority: fc.integer({ min: 0, max: 1 }),
    user: fc.constantFrom(undefined, "x", "y"),
  });
  fc.assert(
    fc.property(fc.array(shares, { maxLength: 30 }), (given) => {
      const queue = new FairQueue<number>();
      for (const [item, one] of given.entries()) queue.push({ share: one, item });
      const order = queue.order(1).map(({ item }) => item);
      const served = given.map(() => queue.next(1)?.item);
      expect(served).toEqual(order);
      expect(new Set(served).size).toBe(given.length);
    }),
  );
});

test("a full queue of any requests gives up one of the lowest priority, of a key that has most of them, and no other", () => {
  const SIZE = 12;
  const request = fc.record({ flow: fc.constantFrom("a", "b", "c"), priority: fc.nat(2) });
  fc.assert(
    fc.property(fc.array(request, { minLength: SIZE, maxLength: 60 }), (requests) => {
      const queue = new FairQueue<number>();
      let waiting: { readonly share: Share; readonly item: number }[] = [];
      for (const [item, { flow, priority }] of requests.entries()) {
        const one = { share: share(flow, { priority }), item };
        queue.push(one);
        waiting.push(one);
        if (waiting.length <= SIZE) continue;
        const gone = queue.removeExcess(one);
        const lowest = Math.min(...waiting.map((other) => other.share.priority));
        const ofLowest = waiting.filter((other) => other.share.priority === lowest);
        const count = (key: string) => ofLowest.filter((other) => other.share.flow === key).length;
        expect(gone).toBe(ofLowest.filter((other) => other.share.flow === gone.share.flow).at(-1));
        expect(count(gone.share.flow)).toBe(Math.max(...["a", "b", "c"].map(count)));
        waiting = waiting.filter((other) => other !== gone);
      }
      const left = queue.order(1).map(({ item }) => item);
      expect(new Set(left)).toEqual(new Set(waiting.map(({ item }) => item)));
      expect(left).toHaveLength(waiting.length);
    }),
  );
});
