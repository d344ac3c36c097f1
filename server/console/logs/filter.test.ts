import { expect, test } from "vitest";
import { systemClock } from "../../../src/kube/system-clock.ts";
import { createSteppedClock } from "../../../test/controller/stepped-clock.ts";
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
  expect(createLineFilter(filter, systemClock)(LINES)).toEqual(shown);
});

test.each(["/(/", `/${"x".repeat(500)}/`, "/((a{1,99}){1,99}){1,99}/", "/[(]{9}(?:\\\\{3}|b{2,}){5000}/"])(
  "%s is refused",
  (filter) => {
    expect(() => createLineFilter(filter, systemClock)).toThrow(
      expect.objectContaining({
        code: "ConsoleRequestInvalid",
        remedy: { summary: expect.stringContaining("simpler") },
      }),
    );
  },
);

test("an expression that would take years is stopped", () => {
  const filter = createLineFilter("/(a+)+$/", systemClock);
  expect(filter(["aaa"])).toEqual([true]);
  expect(() => filter([`${"a".repeat(200)}!`])).toThrow(/takes too long/);
});

test.each(["/[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}/", "/(\\d{1,3}\\.){3}\\d{1,3}/", "/[({]{2,}x{1000}/"])(
  "%s is short enough",
  (filter) => expect(createLineFilter(filter, systemClock)(LINES)).toEqual([false, false, false]),
);

test("all batches of a log share its time, which a followed log slowly gets back", () => {
  const clock = createSteppedClock();
  let spentMs = 0;
  const filter = createLineFilter("/CUDA/", { monotonicMs: () => clock.monotonicMs() + spentMs });
  const lines = {
    ...LINES,
    map: (show: (line: string) => boolean) => {
      spentMs += 160;
      return LINES.map(show);
    },
  };
  const ask = () => filter(lines as never);
  for (const _ of [1, 2]) expect(ask()).toEqual([false, true, false]);
  expect(ask).toThrow(/takes too long/);
  clock.advance(60_000);
  expect(ask()).toEqual([false, true, false]);
});
