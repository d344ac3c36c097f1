import { expect, test } from "vitest";
import { msToAlignedTime, nextAlignedTime } from "./shared-ticks.ts";

test("calm work falls on beats that all share, and never on the moment it was last done", () => {
  expect([0, 1, 4_999.9, 5_000, 12_345].map((at) => nextAlignedTime(at, 5_000))).toEqual([
    5_000, 5_000, 5_000, 10_000, 15_000,
  ]);
  expect(msToAlignedTime(12_345, 5_000)).toBe(2_655);
});
