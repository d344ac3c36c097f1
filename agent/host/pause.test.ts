import { expect, test, vi } from "vitest";
import type { Log } from "../../src/util/ports.ts";
import { createPauseWatch, findPause } from "./pause.ts";

const HOUR = 3_600_000;
const before = { wallMs: 1_000_000_000, monotonicMs: 50_000 };

function later(wallMs: number, monotonicMs: number) {
  const now = { wallMs: before.wallMs + wallMs, monotonicMs: before.monotonicMs + monotonicMs };
  return findPause(before, now, 5_000);
}

test("a check on time, or as late as on a busy machine, is no pause", () => {
  expect(later(5_000, 5_000)).toBeUndefined();
  expect(later(14_000, 14_000)).toBeUndefined();
  expect(later(5_900, 5_000)).toBeUndefined();
});

test("a sleep shows in the wall clock where the monotonic clock does not advance", () => {
  expect(later(HOUR + 5_000, 5_000)).toEqual({ pausedMs: HOUR, countedMs: 0 });
});

test("a sleep shows in the monotonic clock where that runs on, and so does a process that was stopped", () => {
  expect(later(HOUR + 5_000, HOUR + 5_000)).toEqual({ pausedMs: HOUR, countedMs: HOUR });
});

test("a wall clock set back is not a pause, even while the process was paused", () => {
  expect(later(-HOUR, 5_000)).toBeUndefined();
  expect(later(-HOUR, HOUR + 5_000)).toEqual({ pausedMs: HOUR, countedMs: HOUR });
});

test("each pause is reported once", () => {
  const quiet: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, child: () => quiet };
  let [wallMs, monotonicMs] = [0, 0];
  const clock = { nowMs: () => wallMs, monotonicMs: () => monotonicMs, after: () => () => undefined };
  const onPause = vi.fn();
  const check = createPauseWatch({ clock, log: quiet, onPause });
  for (const sleptMs of [0, HOUR, 0, 0, HOUR, 0]) {
    wallMs += 2_000 + sleptMs;
    monotonicMs += 2_000;
    check(2_000);
  }
  expect(onPause.mock.calls).toEqual(Array.from({ length: 2 }, () => [{ pausedMs: HOUR, countedMs: 0 }]));
});
