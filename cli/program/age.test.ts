import { expect, test } from "vitest";
import { ageOf, formatSpan } from "./age.ts";

const [M, H, D] = [60_000, 3_600_000, 86_400_000];

test.each([
  [-5_000, "0s"],
  [999, "0s"],
  [119_999, "119s"],
  [2 * M, "2m"],
  [3 * M + 12_000, "3m12s"],
  [5 * H + 3 * M, "5h3m"],
  [2 * D + 4 * H, "2d4h"],
  [45 * D + 4 * H, "45d"],
])("%d ms is %s", (ms, text) => {
  expect(formatSpan(ms)).toBe(text);
});

test("what is no time has no age", () => {
  expect(ageOf(undefined, 0)).toBeUndefined();
  expect(ageOf("yesterday", 0)).toBeUndefined();
  expect(ageOf("1970-01-01T00:00:00Z", 61_000)).toBe("61s");
});
