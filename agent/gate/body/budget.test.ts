import fc from "fast-check";
import { expect, test } from "vitest";
import { BodyBudget, type BodyShare } from "./budget.ts";

const LIMITS = { totalBytes: 100, routeBytes: 60, ownBytes: 10, protectedMs: 10 };

/** A budget on a clock that the test moves, and requests that note how they ended. */
function budgetBed() {
  const clock = { now: 0 };
  const budget = new BodyBudget(LIMITS, () => clock.now);
  const ended: string[] = [];
  const open = (name: string, route = name) => {
    const share = budget.open(route);
    share.arriving(() => {
      ended.push(name);
      share.release();
    });
    return share;
  };
  return { clock, budget, ended, open };
}

test("a route cannot take the memory that other routes need", () => {
  const { budget, open } = budgetBed();
  expect(open("a").take(60)).toBe(true);
  expect(open("a").take(1)).toBe(false);
  expect(open("b").take(40)).toBe(true);
  expect(open("c").take(11)).toBe(false);
  // What each route has of its own comes on top.
  expect(open("c").take(10)).toBe(true);
  expect(budget.bytes).toBe(110);
});

test("slow bodies are evicted, the oldest first, and a complete body is never evicted", () => {
  const { clock, ended, open } = budgetBed();
  const first = open("first", "a");
  const second = open("second", "a");
  const third = open("third", "a");
  for (const one of [first, second, third]) one.take(20);
  first.arrived();
  clock.now = 9;
  expect(open("fourth", "a").take(20)).toBe(false);
  clock.now = 10;
  expect(open("fourth", "a").take(20)).toBe(true);
  expect(ended).toEqual(["second"]);
});

test("a slow body of another route is evicted if the total limit is reached", () => {
  const { clock, ended, open } = budgetBed();
  open("a").take(60);
  open("b").take(40);
  clock.now = 10;
  expect(open("c").take(20)).toBe(true);
  expect(ended).toEqual(["a"]);
});

test("a route's guaranteed memory is not evicted for others, and no body is evicted without effect", () => {
  const { clock, ended, open } = budgetBed();
  open("small").take(5);
  open("large", "a").take(40);
  clock.now = 10;
  const fresh = open("fresh", "b");
  fresh.take(50);
  expect(open("more", "c").take(60)).toBe(false);
  expect(ended).toEqual([]);
  expect(open("less", "c").take(40)).toBe(true);
  expect(ended).toEqual(["large"]);
});

test("a body that is itself the slowest gets no more", () => {
  const { clock, ended, open } = budgetBed();
  const only = open("a");
  only.take(50);
  clock.now = 10;
  expect(only.take(20)).toBe(false);
  expect(ended).toEqual([]);
});

/** Requests of several routes, each of which holds what it was given until it ends, or is ended for others. */
function requests() {
  const clock = { now: 0 };
  const budget = new BodyBudget(LIMITS, () => clock.now);
  const open = new Map<number, { readonly route: string; readonly share: BodyShare; bytes: number }>();
  const end = (who: number): void => {
    open.get(who)?.share.release();
    open.delete(who);
  };
  const requestOf = (who: number, route: string) => {
    const known = open.get(who);
    if (known !== undefined) return known;
    const request = { route, share: budget.open(route), bytes: 0 };
    request.share.arriving(() => end(who));
    open.set(who, request);
    return request;
  };
  const heldBy = (route: string): number =>
    [...open.values()].reduce((sum, one) => sum + (one.route === route ? one.bytes : 0), 0);
  const acts = {
    take: (who: number, route: string, bytes: number) => {
      const request = requestOf(who, route);
      const isOwn = heldBy(request.route) + bytes <= LIMITS.ownBytes;
      const isTaken = request.share.take(bytes);
      if (isTaken) request.bytes += bytes;
      expect(isTaken || !isOwn).toBe(true);
    },
    arrived: (who: number, route: string) => requestOf(who, route).share.arrived(),
    release: end,
    wait: (_who: number, _route: string, ms: number) => (clock.now += ms),
  };
  return { budget, open, end, heldBy, acts };
}

test("whatever requests do, no limit is passed, a route gets its own part, and nothing is left behind", () => {
  const routes = ["a", "b", "c", "d"];
  const step = fc.record({
    who: fc.nat(7),
    route: fc.constantFrom(...routes),
    what: fc.constantFrom("take", "take", "arrived", "release", "wait" as const),
    bytes: fc.oneof(fc.nat(70), fc.nat(LIMITS.ownBytes)),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60, size: "max" }), (steps) => {
      const { budget, open, end, heldBy, acts } = requests();
      for (const { who, route, what, bytes } of steps) {
        acts[what](who, route, bytes);
        const held = routes.map(heldBy);
        expect(Math.max(...held)).toBeLessThanOrEqual(LIMITS.routeBytes);
        expect(budget.bytes).toBe(held.reduce((sum, one) => sum + one));
        expect(budget.bytes).toBeLessThanOrEqual(LIMITS.totalBytes + 4 * LIMITS.ownBytes);
      }
      for (const who of [...open.keys()]) end(who);
      expect(budget.bytes).toBe(0);
    }),
    { numRuns: 300 },
  );
});
