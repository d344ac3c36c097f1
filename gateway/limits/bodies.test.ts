import fc from "fast-check";
import { expect, test } from "vitest";
import { createHeldBodies } from "./bodies.ts";

const MAX = 1_000;

test("a key holds at most half of what the gateway may hold, and other keys the rest", () => {
  const bodies = createHeldBodies(MAX);
  expect([0, 1, 2, 3].map((id) => bodies.take(`a${id}`, "a", MAX, 0))).toEqual([true, true, true, true]);
  expect(bodies.take("a4", "a", 1, 0)).toBe(false);
  expect([0, 1, 2, 3].map((id) => bodies.take(`b${id}`, "b", MAX, 0))).toEqual([true, true, true, true]);
  expect(bodies.take("c0", "c", 1, 0)).toBe(false);
  bodies.release("a0");
  expect([bodies.take("c0", "c", MAX, 0), bodies.take("a4", "a", 1, 0)]).toEqual([true, false]);
});

test("a body of unknown length counts as the largest, and one that is announced larger will be refused anyway", () => {
  for (const bytes of [undefined, MAX, 50 * MAX]) {
    const bodies = createHeldBodies(MAX);
    for (const id of [0, 1, 2, 3]) bodies.take(`${id}`, "a", bytes, 0);
    expect(bodies.take("4", "a", 1, 0)).toBe(false);
  }
});

test("a body counts by its own bytes once it has arrived", () => {
  const bodies = createHeldBodies(MAX);
  for (const id of [0, 1, 2, 3]) bodies.take(`${id}`, "a", undefined, 0);
  bodies.arrived("0", 10);
  bodies.arrived("unknown", 10);
  expect([bodies.take("4", "a", 991, 0), bodies.take("4", "a", 990, 0)]).toEqual([false, true]);
  for (const id of [0, 1, 2, 3, 4]) bodies.release(`${id}`);
  expect([5, 6, 7, 8].map((id) => bodies.take(`${id}`, "a", MAX, 0))).not.toContain(false);
});

test("a question that is asked again counts once, and what is released is free again", () => {
  const request = fc.record({
    id: fc.constantFrom("1", "2", "3", "4", "5"),
    caller: fc.constantFrom("a", "b"),
    bytes: fc.option(fc.nat({ max: 4 * MAX }), { nil: undefined }),
  });
  fc.assert(
    fc.property(fc.array(request, { maxLength: 40 }), (requests) => {
      const bodies = createHeldBodies(MAX);
      for (const { id, caller, bytes } of requests) bodies.take(id, caller, bytes, 0);
      for (const { id } of requests) bodies.release(id);
      for (const id of [0, 1, 2, 3, 4, 5, 6, 7])
        expect(bodies.take(`${id}`, id < 4 ? "a" : "b", undefined, 0)).toBe(true);
    }),
  );
});

test("what an Envoy held before it exited is free, and what no line of the access log released within an hour", () => {
  const bodies = createHeldBodies(MAX);
  const fill = (nowMs: number) => [0, 1, 2, 3].map((id) => bodies.take(`${nowMs}-${id}`, "a", MAX, nowMs));
  fill(0);
  bodies.releaseAll();
  expect(fill(1)).toEqual([true, true, true, true]);
  expect(bodies.take("x", "a", 1, 3_600_000)).toBe(false);
  expect(bodies.take("x", "a", 1, 3_600_001)).toBe(true);
});
