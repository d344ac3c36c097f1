import { expect, test } from "vitest";
import { crashBackoffMs } from "./end/plan.ts";
import { fetchRetryMs } from "./prepare/corrections.ts";
import { startProbeMs } from "./serve/probe-schedule.ts";
import { engineStartDeadline, requestTimeoutMs } from "./serve/trouble.ts";
import { defaultTimings } from "./timings.ts";

const GIB = 1024 ** 3;

test("the first crash restarts at once; then the backoff doubles from a second to five minutes, less a quarter at most", () => {
  const delays = [1, 2, 3, 4, 10, 11, 500].map((crashes) => crashBackoffMs(defaultTimings, crashes, 0));
  expect(delays).toEqual([0, 1_000, 2_000, 4_000, 256_000, 300_000, 300_000]);
  expect(crashBackoffMs(defaultTimings, 2, 1)).toBe(750);
});

test("a failed fetch is retried after five seconds, then after ever longer delays", () => {
  expect([1, 2, 99].map((failures) => fetchRetryMs(defaultTimings, failures, 0))).toEqual([
    5_000, 10_000, 300_000,
  ]);
});

test("the time to become healthy grows with the weights and with progress, but not without end", () => {
  const start = { startedAt: 0, weightsBytes: 40 * GIB, progressAt: undefined };
  expect(engineStartDeadline(defaultTimings, start)).toBe(140_000);
  expect(engineStartDeadline(defaultTimings, { ...start, progressAt: 130_000 })).toBe(200_000);
  expect(engineStartDeadline(defaultTimings, { ...start, progressAt: 9_000_000 })).toBe(560_000);
});

test("the first real request has time for the weights to come into memory", () => {
  expect([0, 40 * GIB].map((bytes) => requestTimeoutMs(defaultTimings, bytes))).toEqual([30_000, 110_000]);
});

test("a starting engine is asked every 25 ms in its first second and every 50 ms from the next one on", () => {
  expect([0, 100, 400, 1_000, 2_000, 60_000].map((ran) => startProbeMs(defaultTimings, ran))).toEqual([
    25, 25, 25, 25, 50, 50,
  ]);
});
