import { expect, test } from "vitest";
import { defaultTimings } from "../evidence/timings.ts";
import { crashBackoffMs } from "./plan.ts";

test("the first crash restarts at once; then the backoff doubles from a second to five minutes, less a quarter at most", () => {
  const delays = [1, 2, 3, 4, 10, 11, 500].map((crashes) => crashBackoffMs(defaultTimings, crashes, 0));
  expect(delays).toEqual([0, 1_000, 2_000, 4_000, 256_000, 300_000, 300_000]);
  expect(crashBackoffMs(defaultTimings, 2, 1)).toBe(750);
});
