/** What counts as standing still, and what does not. */
import { expect, it } from "vitest";
import { findStall, NO_WORK_SEEN, seeWork, type Work, type WorkReading } from "./work.ts";

const GAP = 30_000;
const limits = { stallMs: 120_000, stallSteps: 4 };
const at = (inFlight: number, tokensTotal: number): WorkReading => ({
  inFlight,
  decodeTotal: 0,
  tokensTotal,
});

function read(...readings: readonly (readonly [number, WorkReading | "unknown"])[]): Work {
  return readings.reduce((work, [now, reading]) => seeWork(work, reading, now, GAP), NO_WORK_SEEN);
}

it("counts the time in which there was work and nothing moved", () => {
  const work = read([0, at(1, 5)], [20_000, at(1, 5)], [40_000, at(2, 5)]);
  expect(work).toMatchObject({ stalledMs: 40_000, longestStepMs: 0 });
});

it("counts nothing while there is no work, nor from before it came", () => {
  expect(read([0, at(0, 5)], [20_000, at(0, 5)], [40_000, at(1, 5)]).stalledMs).toBe(0);
  expect(read([0, at(1, 5)], [20_000, at(0, 5)], [40_000, at(1, 5)]).stalledMs).toBe(0);
});

it("takes a movement for the end of a step, and remembers the longest", () => {
  const work = read([0, at(1, 5)], [20_000, at(1, 5)], [25_000, at(1, 6)], [30_000, at(1, 7)]);
  expect(work).toMatchObject({ stalledMs: 0, longestStepMs: 25_000 });
});

it("counts nothing across a reading that failed, and keeps what it had", () => {
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

it("counts nothing of a night in which the host slept", () => {
  const work = read([0, at(1, 5)], [8 * 3_600_000, at(1, 5)], [8 * 3_600_000 + 5_000, at(1, 6)]);
  expect(work).toMatchObject({ stalledMs: 0, longestStepMs: 5_000 });
});

it("calls it a stall after the limit or four of the longest steps, and says so", () => {
  const last = at(1, 5);
  expect(findStall({ last, stalledMs: 119_999, longestStepMs: 0 }, limits)).toBeUndefined();
  expect(findStall({ last, stalledMs: 120_000, longestStepMs: 30_001 }, limits)).toBeUndefined();
  expect(findStall({ last, stalledMs: 120_000, longestStepMs: 30_000 }, limits)).toBe(
    "with 1 request in work, no token was read or written for 120 s (limit 120 s)",
  );
});
