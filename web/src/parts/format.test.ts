import { expect, test } from "vitest";
import { formatBytes, formatDuration, formatRate } from "./format.ts";

const GIB = 1_024 ** 3;

test.each([
  [21.4 * GIB, "21.4 GiB"],
  [undefined, "–"],
  [Number.NaN, "–"],
])("writes %s bytes as %s", (bytes, shown) => {
  expect(formatBytes(bytes)).toBe(shown);
});

test.each([
  [0, "0"],
  [8.254, "8.25"],
  [41.26, "41.3"],
  [182.4, "182"],
  [9_999, "10 k"],
  [12_345, "12.3 k"],
  [4_200_000, "4.2 M"],
])("writes a rate of %s with at most three digits, as %s", (rate, shown) => {
  expect(formatRate(rate)).toBe(shown);
});

test.each([
  [-500, "0 s"],
  [59_000, "59 s"],
  [61_000, "1 min"],
  [2 * 3_600_000 + 5 * 60_000, "2 h 5 min"],
  [3_600_000, "1 h"],
  [4.5 * 86_400_000, "4 d"],
])("writes %s ms as %s", (ms, shown) => {
  expect(formatDuration(ms)).toBe(shown);
});
