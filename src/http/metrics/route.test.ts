import fc from "fast-check";
import { expect, test } from "vitest";
import { metricsRoute } from "./route.ts";

test("however often and however long a page is asked for, it is rendered a fifth of the time at most", async () => {
  const step = fc.record({ waitMs: fc.nat(2_000), costMs: fc.integer({ min: 1, max: 500 }) });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 50 }), async (steps) => {
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
        await route();
        nowMs += one.waitMs;
      }
    }),
  );
});

test("scrapes that overlap get one page, and a page that failed is rendered again", async () => {
  let rendered = 0;
  const { promise, resolve } = Promise.withResolvers<string>();
  const route = metricsRoute(
    () => {
      rendered += 1;
      if (rendered === 1) return promise;
      if (rendered === 2) throw new Error("no facts");
      return "again";
    },
    { monotonicMs: () => 0 },
  );
  const both = Promise.all([route(), route()]);
  resolve("page");
  const [first, second] = await both;
  expect(first).toBe(second);
  await expect(route()).rejects.toThrow("no facts");
  expect(String((await route()).body)).toBe("again");
});
