import fc from "fast-check";
import { expect, test } from "vitest";
import { rolloutLimits } from "./limits.ts";

test.each([
  // As a Deployment resolves them: surge up, unavailable down.
  [3, "25%", "25%", 1, 0],
  [4, "25%", "25%", 1, 1],
  [10, "25%", "25%", 3, 2],
  [10, "100%", "100%", 10, 10],
  [100, "1%", "0%", 1, 0],
  [3, 2, 1, 2, 1],
  [3, "34%", 0, 2, 0],
  [3, "34%", "32%", 2, 0],
  [3, 0, "67%", 0, 2],
  // Neither would leave a step to take, so one may be missing.
  [2, 0, "25%", 0, 1],
  [3, "0%", "33%", 0, 1],
  [1, "0%", "99%", 0, 1],
  [0, "25%", "25%", 0, 1],
])(
  "of %i replicas, surge %s and unavailable %s are %i and %i",
  (desired, maxSurge, maxUnavailable, more, fewer) => {
    expect(rolloutLimits({ maxSurge, maxUnavailable }, desired)).toEqual({
      maxSurge: more,
      maxUnavailable: fewer,
    });
  },
);

test("whatever is set, a step is left, and percentages stay within the replicas", () => {
  const percent = fc.integer({ min: 0, max: 100 }).map((value) => `${value}%`);
  const limit = fc.oneof(fc.integer({ min: 0, max: 100 }), percent);
  fc.assert(
    fc.property(limit, limit, fc.integer({ min: 0, max: 1000 }), (maxSurge, maxUnavailable, desired) => {
      const limits = rolloutLimits({ maxSurge, maxUnavailable }, desired);
      expect(limits.maxSurge + limits.maxUnavailable).toBeGreaterThan(0);
      if (typeof maxSurge === "string") expect(limits.maxSurge).toBeLessThanOrEqual(desired);
      if (typeof maxUnavailable === "string")
        expect(limits.maxUnavailable).toBeLessThanOrEqual(Math.max(1, desired));
    }),
  );
});
