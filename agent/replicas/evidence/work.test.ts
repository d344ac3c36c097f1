/** What counts as a stall, and what does not. */
import { expect, it } from "vitest";
import type { EngineProgress } from "../../engines/driver/engine.ts";
import { findStall, NO_OBSERVED_WORK, noteWork, type ObservedWork, type Work } from "./work.ts";

const GAP = 30_000;
const limits = { stallMs: 120_000, stallSteps: 4 };
const at = (inFlight: number, tokensTotal: number): EngineProgress => ({
  inFlight,
  decodeTotal: 0,
  tokensTotal,
});

function read(...readings: readonly (readonly [number, ObservedWork])[]): Work {
  return readings.reduce((work, [now, reading]) => noteWork(work, reading, now, GAP), NO_OBSERVED_WORK);
}

it("counts the time in which there was work and no counter changed", () => {
  const work = read([0, at(1, 5)], [20_000, at(1, 5)], [40_000, at(2, 5)]);
  expect(work).toMatchObject({ stalledMs: 40_000, longestStepMs: 0 });
});

it("counts no time without work", () => {
  expect(read([0, at(0, 5)], [20_000, at(0, 5)], [40_000, at(1, 5)]).stalledMs).toBe(0);
  expect(read([0, at(1, 5)], [20_000, at(0, 5)], [40_000, at(1, 5)]).stalledMs).toBe(0);
});

it("treats a changed counter as the end of a step, and remembers the longest step", () => {
  const work = read([0, at(1, 5)], [20_000, at(1, 5)], [25_000, at(1, 6)], [30_000, at(1, 7)]);
  expect(work).toMatchObject({ stalledMs: 0, longestStepMs: 25_000 });
});

it("counts no time across a failed reading, and keeps the earlier count", () => {
  const before = [
    [0, at(1, 5)],
    [20_000, at(1, 5)],
    [25_000, "unknown"],
  ] as const;
  expect(read(...before).stalledMs).toBe(20_000);
  expect(read(...before, [45_000, at(1, 5)]).stalledMs).toBe(20_000);
  expect(read(...before, [45_000, at(1, 5)], [50_000, at(1, 5)]).stalledMs).toBe(25_000);
  expect(read(...before, [45_000, at(1, 6)])).toMatchObject({ stalledMs: 0, longestStepMs: 20_000 });
});

it("counts how long one request has been pending, but not across a gap or a sleep", () => {
  expect(read([0, "open"], [20_000, "open"], [25_000, "open"]).openMs).toBe(25_000);
  expect(read([0, at(1, 5)], [20_000, "open"]).openMs).toBe(0);
  expect(read([0, "open"], [8 * 3_600_000, "open"], [8 * 3_600_000 + 5_000, "open"]).openMs).toBe(5_000);
  expect(read([0, "open"], [20_000, "unknown"], [25_000, "open"]).openMs).toBe(0);
});

it("treats the end of a pending request as the end of a step", () => {
  expect(read([0, "open"], [20_000, "open"], [21_000, at(1, 5)])).toMatchObject({
    openMs: 0,
    longestStepMs: 20_000,
  });
  expect(read([0, "open"], [20_000, "open"], [21_000, "unknown"])).toMatchObject({
    openMs: 0,
    longestStepMs: 20_000,
  });
});

it("counts no time in which the host slept", () => {
  const work = read([0, at(1, 5)], [8 * 3_600_000, at(1, 5)], [8 * 3_600_000 + 5_000, at(1, 6)]);
  expect(work).toMatchObject({ stalledMs: 0, longestStepMs: 5_000 });
});

it("reports a stall after the limit or four of the longest steps", () => {
  const last = at(1, 5);
  const stall = (stalledMs: number, openMs: number, longestStepMs: number) =>
    findStall({ last, stalledMs, openMs, longestStepMs }, limits);
  expect(stall(119_999, 119_999, 0)).toBeUndefined();
  expect(stall(120_000, 120_000, 30_001)).toBeUndefined();
  expect(stall(120_000, 0, 30_000)).toBe(
    "1 request in flight, and no token was processed for 120 s (limit 120 s)",
  );
  expect(stall(0, 120_000, 30_000)).toBe(
    "/health answers, and /metrics has not answered for 120 s (limit 120 s)",
  );
});
