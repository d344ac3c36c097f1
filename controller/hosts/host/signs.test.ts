import { expect, test } from "vitest";
import type { Clock } from "../../../src/util/ports.ts";
import { createLeaseSigns } from "./signs.ts";

function signsAt(startMs: number) {
  let now = startMs;
  const clock: Clock = { nowMs: () => now, monotonicMs: () => now, after: () => () => {} };
  const signs = createLeaseSigns(clock);
  const note = (atMs: number, holder: string | undefined, renewTime: string, isFirstList = false) => {
    now = atMs;
    return signs.note("a", { holder, renewTime }, isFirstList);
  };
  const resetTimeoutsAt = (atMs: number) => {
    now = atMs;
    signs.resetTimeouts();
  };
  return { signs, note, resetTimeoutsAt };
}

test("only a new renewal by a holder is a sign, and a list at the start shows none", () => {
  const { signs, note } = signsAt(1_000);
  expect(note(1_000, "x", "1", true)).toBe(false);
  expect(signs.lastChangeMs("a")).toBeUndefined();
  expect(note(2_000, "x", "1")).toBe(false);
  expect(note(3_000, "x", "2")).toBe(true);
  expect(note(4_000, "x", "2")).toBe(false);
  expect(signs.lastChangeMs("a")).toBe(3_000);
  expect(note(5_000, undefined, "2")).toBe(false);
  expect(signs.lastChangeMs("a")).toBe(3_000);
  expect(note(6_000, "y", "2")).toBe(true);
  expect(signs.hosts()).toEqual(["a"]);
});

test("a Lease that has changed before it is listed again is a sign", () => {
  const { signs, note } = signsAt(0);
  note(1_000, "x", "1", true);
  expect(note(2_000, "x", "2", true)).toBe(true);
  expect(signs.lastChangeMs("a")).toBe(2_000);
});

test("a Lease that appears after the first lists is a sign", () => {
  const { signs, note } = signsAt(0);
  expect(note(5_000, "x", "1")).toBe(true);
  expect(signs.lastChangeMs("a")).toBe(5_000);
});

test("a renewal after the duration of a Lease ends an absence, which counts from the last renewal or restart", () => {
  const { signs, note, resetTimeoutsAt } = signsAt(0);
  note(1_000, "x", "1");
  note(40_999, "x", "2");
  expect(signs.absence("a")).toBeUndefined();
  note(80_999, "x", "3");
  expect(signs.absence("a")).toEqual({ fromMs: 40_999, toMs: 80_999 });
  resetTimeoutsAt(100_000);
  expect(signs.countedFromMs()).toBe(100_000);
  note(130_000, "x", "4");
  expect(signs.absence("a")).toEqual({ fromMs: 40_999, toMs: 80_999 });
  note(200_000, "x", "5");
  expect(signs.absence("a")).toEqual({ fromMs: 130_000, toMs: 200_000 });
});
