import fc from "fast-check";
import { expect, test } from "vitest";
import { BodyBudget } from "./budget.ts";

const LIMITS = { totalBytes: 100, routeBytes: 60, ownBytes: 10, protectedMs: 10 };

/** A budget on a clock that the test moves, and requests that note how they ended. */
function budgetBed() {
  const clock = { now: 0 };
  const budget = new BodyBudget(LIMITS, () => clock.now);
  const ended: string[] = [];
  const open = (name: string, route = name) => {
    const share = budget.open(route, () => {
      ended.push(name);
      share.release();
    });
    return share;
  };
  return { clock, budget, ended, open };
}

test("a route cannot take what the others need", () => {
  const { budget, open } = budgetBed();
  expect(open("a").take(60)).toBe(true);
  expect(open("a").take(1)).toBe(false);
  expect(open("b").take(40)).toBe(true);
  expect(open("c").take(11)).toBe(false);
  // What each route has of its own comes on top.
  expect(open("c").take(10)).toBe(true);
  expect(budget.bytes).toBe(110);
});

test("slow bodies make room, the oldest first, and one that has arrived never does", () => {
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

test("a slow body of another route makes room where the sum is short", () => {
  const { clock, ended, open } = budgetBed();
  open("a").take(60);
  open("b").take(40);
  clock.now = 10;
  expect(open("c").take(20)).toBe(true);
  expect(ended).toEqual(["a"]);
});

test("what a route has of its own makes no room for others, and no body ends for nothing", () => {
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

test("whatever requests do, no limit is passed, and no request leaves anything behind", () => {
  const step = fc.record({
    who: fc.nat(7),
    route: fc.constantFrom("a", "b", "c", "d"),
    what: fc.constantFrom("take", "take", "arrived", "release", "wait" as const),
    bytes: fc.nat(70),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const { clock, budget, open } = budgetBed();
      const shares = new Map<number, ReturnType<typeof open>>();
      for (const { who, route, what, bytes } of steps) {
        const share = shares.get(who) ?? open(String(who), route);
        shares.set(who, share);
        const acts = {
          take: () => share.take(bytes),
          arrived: share.arrived,
          wait: () => (clock.now += bytes),
          release: () => {
            share.release();
            shares.delete(who);
          },
        };
        acts[what]();
        expect(budget.bytes).toBeLessThanOrEqual(LIMITS.totalBytes + 4 * LIMITS.ownBytes);
      }
      for (const share of shares.values()) share.release();
      expect(budget.bytes).toBe(0);
    }),
  );
});
