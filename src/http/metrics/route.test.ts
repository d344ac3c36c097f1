import fc from "fast-check";
import { expect, test } from "vitest";
import { metricsRoute } from "./route.ts";

test("however often and however long a page is asked for, it is rendered a fifth of the time at most", () => {
  const step = fc.record({ waitMs: fc.nat(2_000), costMs: fc.integer({ min: 1, max: 500 }) });
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 50 }), (steps) => {
      let nowMs = 0;
      let costMs = 0;
      let begunMs: number | undefined;
      let lastCostMs = 0;
      const route = metricsRoute(
        () => {
          if (begunMs !== undefined) expect(nowMs - begunMs).toBeGreaterThanOrEqual(5 * lastCostMs);
          begunMs = nowMs;
          lastCostMs = costMs;
          nowMs += costMs;
          return `page at ${nowMs}`;
        },
        { monotonicMs: () => nowMs },
      );
      for (const one of steps) {
        costMs = one.costMs;
        void route();
        nowMs += one.waitMs;
      }
    }),
  );
});

test("a page that failed is rendered again", () => {
  let rendered = 0;
  const route = metricsRoute(
    () => {
      rendered += 1;
      if (rendered === 1) throw new Error("no facts");
      return "again";
    },
    { monotonicMs: () => 0 },
  );
  expect(route).toThrow("no facts");
  expect(route()).toMatchObject({ status: 200, body: Buffer.from("again") });
});
