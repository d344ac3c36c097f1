import { expect, test } from "vitest";
import { defaultTimings } from "../evidence/timings.ts";
import { engineStartDeadline, requestTimeoutMs } from "./failure.ts";

const GIB = 1024 ** 3;

test("the time to become healthy grows with the weights and with progress, up to a limit", () => {
  const start = { startedAt: 0, weightsBytes: 40 * GIB, progressAt: undefined };
  expect(engineStartDeadline(defaultTimings, start)).toBe(140_000);
  expect(engineStartDeadline(defaultTimings, { ...start, progressAt: 130_000 })).toBe(200_000);
  expect(engineStartDeadline(defaultTimings, { ...start, progressAt: 9_000_000 })).toBe(560_000);
});

test("the first real request has time to load the weights into memory", () => {
  expect([0, 40 * GIB].map((bytes) => requestTimeoutMs(defaultTimings, bytes))).toEqual([30_000, 110_000]);
});
