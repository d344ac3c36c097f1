import { expect, test } from "vitest";
import { simulateDay } from "./day.ts";
import type { SimulationOptions } from "./options.ts";
import { renderSimulationReport } from "./report.ts";

const CROWDED: SimulationOptions = { hosts: 15, services: 70, hours: 12, seed: 1, load: 1.3 };

/** Clocks that do not move: the result must not depend on them. */
const noClock = { elapsedMs: () => 0, cpuMs: () => 0 };

test.each([1, 2, 3])("on a crowded day no rule is broken, whatever happens (seed %i)", (seed) => {
  const tally = simulateDay({ ...CROWDED, seed }, noClock);
  expect(tally.placements()).toBeGreaterThan(70);
  expect([...tally.preemptions.values()].reduce((sum, count) => sum + count, 0)).toBeGreaterThan(0);
  expect(tally.samples.some(({ waiting }) => waiting > 0)).toBe(true);
});

test("the same seed gives the same day", () => {
  const [one, other] = [1, 2].map(() => renderSimulationReport(CROWDED, simulateDay(CROWDED, noClock)));
  expect(one).toBe(other);
});

test("no service of normal priority or above is preempted on a day with room for all", () => {
  const tally = simulateDay({ ...CROWDED, load: 0.4 }, noClock);
  for (const name of ["normal", "high", "critical"] as const)
    expect(tally.preemptions.get(name)).toBeUndefined();
  expect(tally.waits.filter(({ isServed }) => !isServed).length).toBeLessThan(tally.waits.length / 10);
});
