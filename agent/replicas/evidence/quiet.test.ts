import { expect, it } from "vitest";
import type { DrainReading } from "../../engines/driver/engine.ts";
import { noteQuiet, type Quiet } from "./quiet.ts";

const idle: DrainReading = { inFlight: 0, decodeTotal: 7, tokensTotal: 40 };

/** Looks 50 ms apart. */
function sinceAfter(...readings: readonly (DrainReading | "unknown")[]): number | undefined {
  let quiet: Quiet = {};
  for (const [index, reading] of readings.entries()) quiet = noteQuiet(quiet, reading, index * 50);
  return quiet.since;
}

it("an engine is quiet from its first idle reading", () => {
  expect(sinceAfter(idle, idle, idle)).toBe(0);
  expect(sinceAfter({ ...idle, inFlight: 1 }, idle, idle)).toBe(50);
});

it("a request that began and finished between two readings shows in the counters and restarts quiet", () => {
  expect(sinceAfter(idle, { ...idle, decodeTotal: 9, tokensTotal: 42 }, idle)).toBe(100);
  expect(sinceAfter(idle, idle, { ...idle, tokensTotal: 41 })).toBe(100);
  expect(sinceAfter(idle, { inFlight: 1, decodeTotal: 8, tokensTotal: 41 }, idle)).toBe(100);
});

it("a failed reading counts as busy, and earlier readings no longer count", () => {
  expect(sinceAfter(idle, "unknown")).toBeUndefined();
  expect(sinceAfter(idle, "unknown", idle)).toBe(100);
});

it("an engine too old to count its decode steps is judged by its tokens", () => {
  const old = { inFlight: 0, tokensTotal: 40 };
  expect(sinceAfter(old, old)).toBe(0);
  expect(sinceAfter(old, { ...old, tokensTotal: 41 })).toBe(50);
});
