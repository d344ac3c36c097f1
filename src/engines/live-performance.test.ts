import fc from "fast-check";
import { expect, test } from "vitest";
import {
  addReading,
  duePerformance,
  type LoadReading,
  type LoadWindow,
  meanPerformance,
  reportedPerformance,
  sumPerformance,
} from "./live-performance.ts";

const SECOND = 1_000;

const windowOf = (readings: readonly LoadReading[]): LoadWindow =>
  readings.reduce<LoadWindow>((window, reading) => addReading(window, reading), []);

/** Readings at an interval of five seconds. */
const everyFive = (tokens: readonly number[], inFlight = 1): readonly LoadReading[] =>
  tokens.map((generatedTokens, index) => ({ at: index * 5 * SECOND, generatedTokens, inFlight }));

test.each<[string, readonly LoadReading[], number, unknown]>([
  ["nothing is known without a reading", [], 0, undefined],
  ["nothing is known after one reading", everyFive([100]), 0, undefined],
  ["two readings", everyFive([100, 200]), 5, { tokensPerSecond: 20, requestsInFlight: 1 }],
  ["an idle engine has zeros", everyFive([100, 100], 0), 5, { tokensPerSecond: 0, requestsInFlight: 0 }],
  ["an engine was restarted", everyFive([100, 200, 5, 55]), 15, { tokensPerSecond: 10, requestsInFlight: 1 }],
  [
    "readings have failed for two minutes",
    everyFive([100, 200]),
    125,
    { tokensPerSecond: 20, requestsInFlight: 1 },
  ],
  ["readings ended more than two minutes ago", everyFive([100, 200]), 126, {}],
  [
    "readings of a pod every 30 seconds, of which two have failed",
    [
      { at: 0, generatedTokens: 0 },
      { at: 30_000, generatedTokens: 300 },
      { at: 120_000, generatedTokens: 1_200 },
    ],
    120,
    { tokensPerSecond: 10 },
  ],
  [
    "an engine that reports requests only",
    [
      { at: 0, inFlight: 0 },
      { at: 15_000, inFlight: 0 },
      { at: 20_000, inFlight: 4 },
    ],
    20,
    { requestsInFlight: 1 },
  ],
  [
    "the time to the first token is the mean of the answers in the window",
    [
      { at: 0, firstTokens: 10, firstTokenSeconds: 100 },
      { at: 5_000, firstTokens: 14, firstTokenSeconds: 102 },
    ],
    5,
    { timeToFirstTokenSeconds: 0.5 },
  ],
])("%s", (_, readings, seconds, expected) => {
  expect(meanPerformance(windowOf(readings), seconds * SECOND)).toEqual(expected);
});

test("the mean covers one minute, so it decays to zero a minute after the last request", () => {
  let window: LoadWindow = [];
  const speeds = Array.from({ length: 25 }, (_, index) => {
    // 600 tokens in the first minute, none in the second.
    window = addReading(window, { at: index * 5 * SECOND, generatedTokens: Math.min(index, 12) * 50 });
    return meanPerformance(window, index * 5 * SECOND)?.tokensPerSecond;
  });
  expect(speeds[12]).toBe(10);
  expect(speeds[18]).toBe(5);
  expect(speeds[24]).toBe(0);
  expect(window).toHaveLength(13);
});

test("a clock that goes back and a gap of more than two minutes begin a new window", () => {
  const window = windowOf(everyFive([0, 100, 200]));
  expect(addReading(window, { at: 3 * SECOND, generatedTokens: 300 })).toHaveLength(1);
  expect(addReading(window, { at: 131 * SECOND, generatedTokens: 300 })).toHaveLength(1);
  expect(addReading(window, { at: 130 * SECOND, generatedTokens: 300 })).toHaveLength(2);
});

test("any readings give figures that are finite and not negative, and a window of bounded length", () => {
  const reading = fc.record({
    at: fc.integer({ min: 0, max: 300_000 }),
    inFlight: fc.option(fc.nat(100), { nil: undefined }),
    generatedTokens: fc.option(fc.nat(100_000), { nil: undefined }),
    firstTokens: fc.option(fc.nat(3), { nil: undefined }),
    firstTokenSeconds: fc.option(fc.nat(100), { nil: undefined }),
  });
  fc.assert(
    fc.property(fc.array(reading), fc.integer({ min: 0, max: 400_000 }), (readings, now) => {
      const mean = meanPerformance(windowOf(readings), now) ?? {};
      for (const value of Object.values(mean))
        if (value !== undefined) expect(Number.isFinite(value) && value >= 0).toBe(true);
    }),
  );
});

test("with one reading in two minutes at least, the means of a steady engine are always its speed", () => {
  const gaps = fc.array(fc.integer({ min: 1, max: 120_000 }), { minLength: 2, maxLength: 50 });
  fc.assert(
    fc.property(gaps, fc.integer({ min: 0, max: 120_000 }), (between, silence) => {
      let at = 0;
      const readings = between.map((gap) => {
        at += gap;
        return { at, generatedTokens: at / 100, inFlight: 3 };
      });
      const window = windowOf(readings);
      const mean = meanPerformance(window, at + silence);
      expect(mean?.tokensPerSecond).toBeCloseTo(10);
      expect(mean?.requestsInFlight).toBeCloseTo(3);
      // The mean covers the last minute, and no more readings than that needs.
      const spans = window.map((one) => at - one.at);
      expect(spans.filter((span) => span >= 60_000).length).toBeLessThanOrEqual(1);
      expect(spans[0]).toBeGreaterThanOrEqual(Math.min(60_000, at - (between[0] ?? 0)));
    }),
  );
});

test("only changes of more than a tenth, and those to and from zero, are reported", () => {
  const before = { tokensPerSecond: 20, requestsInFlight: 1 };
  expect(reportedPerformance(before, { tokensPerSecond: 21.9, requestsInFlight: 1.05 })).toEqual(before);
  expect(reportedPerformance(before, { tokensPerSecond: 22.24, requestsInFlight: 1 })).toEqual({
    tokensPerSecond: 22,
    requestsInFlight: 1,
  });
  expect(reportedPerformance(before, { tokensPerSecond: 0, requestsInFlight: 1 })?.tokensPerSecond).toBe(0);
  expect(reportedPerformance(before, { tokensPerSecond: 0, requestsInFlight: 0 })).toBeUndefined();
  expect(reportedPerformance(before, {})).toBeUndefined();
  expect(reportedPerformance(before, { requestsUnknown: true })).toEqual({ requestsUnknown: true });
});

test("a change is held back until 30 seconds after the last one", () => {
  const before = { tokensPerSecond: 20 };
  const at = (now: number, tokensPerSecond = 40) =>
    duePerformance(before, { tokensPerSecond }, { writtenAt: 1_000, now });
  expect(at(21_000)).toEqual({ performance: before, dueInMs: 10_000 });
  expect(at(31_000)).toEqual({ performance: { tokensPerSecond: 40 } });
  expect(at(21_000, 20)).toEqual({ performance: before });
  expect(duePerformance(undefined, before, { writtenAt: undefined, now: 0 })).toEqual({
    performance: before,
  });
});

test("speeds and requests of replicas add up, and the time to the first token is a mean", () => {
  const replicas = [
    { tokensPerSecond: 10, timeToFirstTokenSeconds: 1, requestsInFlight: 2 },
    { tokensPerSecond: 5, timeToFirstTokenSeconds: 3, requestsInFlight: 0 },
    { requestsInFlight: 1 },
  ];
  const sums = { tokensPerSecond: 15, timeToFirstTokenSeconds: 2 };
  expect(sumPerformance(replicas)).toEqual({ ...sums, requestsInFlight: 3 });
  // One replica whose requests are not known makes the sum unknown.
  expect(sumPerformance([...replicas, {}])).toEqual({ ...sums, requestsUnknown: true });
  expect(sumPerformance([])).toEqual({ requestsInFlight: 0 });
});
