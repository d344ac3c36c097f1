import { expect, it } from "vitest";
import type { Activity } from "../../../src/macos/living-process.ts";
import { defaultTimings } from "../evidence/timings.ts";
import { isAgentDelay, livenessProbe, probeTimeoutMs, startProbeMs } from "./probe-schedule.ts";

const TIMEOUT_MS = 5_000;

/** From the first unanswered probe until `failures` of them in a row have failed. */
function silenceUntilHung(silent: Activity, failures: number): number {
  let now = 0;
  for (let failed = 1; failed <= failures; failed++) {
    const health = {
      failuresInARow: failed - 1,
      lastProbeAt: now,
      silent: failed === 1 ? undefined : silent,
    };
    if (failed > 1) {
      const probe = livenessProbe(health, { failures }, now, defaultTimings);
      if (probe.steps.length === 0) now += probe.dueInMs;
    }
    now += probeTimeoutMs(health, { failures }, TIMEOUT_MS, defaultTimings);
  }
  return now;
}

it("kills a silent engine after 7 s if it sleeps, and after 17 s if it computes or swaps", () => {
  expect(silenceUntilHung("asleep", 3)).toBe(7_000);
  expect(silenceUntilHung("busy", 3)).toBe(17_000);
  expect(silenceUntilHung("unknown", 3)).toBe(17_000);
});

it("keeps the normal pace for a service that allows more failed probes than usual", () => {
  expect(silenceUntilHung("asleep", 10)).toBe(59_000);
  expect(silenceUntilHung("busy", 10)).toBe(59_000);
});

it("ignores a probe that timed out late because the agent itself was delayed", () => {
  expect(isAgentDelay(5_004, TIMEOUT_MS, defaultTimings)).toBe(false);
  expect(isAgentDelay(6_200, TIMEOUT_MS, defaultTimings)).toBe(true);
});

it("probes a starting engine every 25 ms in its first second and every 50 ms after that", () => {
  expect([0, 100, 400, 1_000, 2_000, 60_000].map((ran) => startProbeMs(defaultTimings, ran))).toEqual([
    25, 25, 25, 25, 50, 50,
  ]);
});
