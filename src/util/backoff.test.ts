import { expect, it } from "vitest";
import { backoffMs, retryMs } from "./backoff.ts";

const options = { firstMs: 100, capMs: 1_000 };

it("doubles from the first delay up to the cap, for any number of failures", () => {
  expect([0, 1, 2, 4, 5, 10_000].map((failures) => backoffMs(failures, options, 1))).toEqual([
    100, 100, 200, 800, 1_000, 1_000,
  ]);
});

it("draws between half and all of the delay, or between the shares given", () => {
  expect([0, 0.5, 1].map((random) => backoffMs(1, options, random))).toEqual([50, 75, 100]);
  const longer = { ...options, jitter: [1, 1.2] } as const;
  expect([0, 0.5, 1].map((random) => backoffMs(1, longer, random))).toEqual([100, 110, 120]);
});

it("waits for as long as Retry-After asks, and no shorter than without it", () => {
  expect(retryMs(1, options, 5_000, 0)).toBe(5_000);
  expect(retryMs(1, options, 5_000, 1)).toBe(7_500);
  expect(retryMs(5, options, 10, 1)).toBe(1_000);
});
