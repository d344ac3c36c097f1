import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { atMostEvery } from "./at-most-every.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("the first call is at once, the others once in an interval, the last is not lost", () => {
  let count = 0;
  const { call } = atMostEvery(1_000, () => {
    count += 1;
  });
  call();
  call();
  call();
  expect(count).toBe(1);
  vi.advanceTimersByTime(1_000);
  expect(count).toBe(2);
  vi.advanceTimersByTime(5_000);
  expect(count).toBe(2);
  call();
  expect(count).toBe(3);
});

test("nothing is called after a cancel, and every call without an interval", () => {
  let count = 0;
  const act = () => {
    count += 1;
  };
  const slow = atMostEvery(1_000, act);
  slow.call();
  slow.call();
  slow.cancel();
  vi.advanceTimersByTime(5_000);
  expect(count).toBe(1);
  const quick = atMostEvery(0, act);
  quick.call();
  quick.call();
  expect(count).toBe(3);
});
