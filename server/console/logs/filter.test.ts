import { expect, test } from "vitest";
import { createLineFilter } from "./filter.ts";

const LINES = ["Slot 1 is idle", "error: CUDA out of memory", "a.b"];

test.each([
  ["", [true, true, true]],
  ["CUDA", [false, true, false]],
  ["slot", [true, false, false]],
  ["a.b", [false, false, true]],
  ["/^slot \\d/", [false, false, false]],
  ["/^slot \\d/i", [true, false, false]],
  ["/", [false, false, false]],
])("the filter %j shows the lines that match", (filter, shown) => {
  expect(createLineFilter(filter)(LINES)).toEqual(shown);
});

test.each(["/(/", `/${"x".repeat(500)}/`])("%s is refused", (filter) => {
  expect(() => createLineFilter(filter)).toThrow(expect.objectContaining({ code: "ConsoleRequestInvalid" }));
});

test("an expression that would take years is stopped", () => {
  const filter = createLineFilter("/(a+)+$/");
  expect(filter(["aaa"])).toEqual([true]);
  const startedAt = performance.now();
  expect(() => filter([`${"a".repeat(200)}!`])).toThrow(/takes too long/);
  expect(performance.now() - startedAt).toBeLessThan(5_000);
});
