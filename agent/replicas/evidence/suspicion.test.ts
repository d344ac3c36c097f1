/** From a line in the log to a verdict: only a clear answer ends an engine. */
import { describe, expect, it } from "vitest";
import { assessReply, judgeSuspicion, raiseSuspicion, type Suspicion } from "./suspicion.ts";
import { NO_OBSERVED_WORK, type Work } from "./work.ts";

const LINE = "failed to decode, ret = -3";
const suspected: Suspicion = { at: "suspected", line: LINE };
const seen = (decodeTotal: number, lastAt?: number): Work => ({
  ...NO_OBSERVED_WORK,
  last: { inFlight: 1, decodeTotal, tokensTotal: 0 },
  ...(lastAt === undefined ? {} : { lastAt }),
});

describe("a line in the log", () => {
  it("is a suspicion, once until it is settled", () => {
    expect(raiseSuspicion({ at: "none" }, undefined, 0, 60)).toEqual({ at: "none" });
    expect(raiseSuspicion({ at: "none" }, LINE, 0, 60)).toEqual(suspected);
    expect(raiseSuspicion(suspected, "another", 0, 60)).toBe(suspected);
  });

  it("is one again after a cleared one, but not at each request that fails", () => {
    const cleared: Suspicion = { at: "cleared", line: LINE, probedAt: 100 };
    expect(raiseSuspicion(cleared, LINE, 159, 60)).toBe(cleared);
    expect(raiseSuspicion(cleared, LINE, 160, 60)).toEqual(suspected);
  });
});

describe("a real request", () => {
  it("settles a suspicion when its answer is clear", () => {
    expect(judgeSuspicion(suspected, "ok", 7)).toEqual({ at: "cleared", line: LINE, probedAt: 7 });
    expect(judgeSuspicion(suspected, { failed: "HTTP 500" }, 7)).toEqual({
      at: "confirmed",
      line: LINE,
      message: "HTTP 500",
    });
    expect(judgeSuspicion(suspected, "unclear", 7)).toEqual({ at: "suspected", line: LINE, probedAt: 7 });
  });

  it.each<[string, string, boolean]>([
    ["failed", "HTTP 500: Compute error.", true],
    ["is no completion", "HTTP 200: <html>", true],
    ["was refused", "HTTP 401: Invalid API Key", false],
    ["came from no listener", "nothing is listening on the port", false],
  ])("that %s counts or not", (_name, failed, counts) => {
    const asked = { at: 10, isLate: false, before: seen(5, 5), after: seen(5, 5) };
    expect(assessReply({ failed }, asked)).toEqual(counts ? { failed } : "unclear");
  });

  it.each<[string, Work, Work, boolean]>([
    ["the engine was stalled", seen(5, 9), seen(5, 20), true],
    ["the engine made progress with others", seen(5, 9), seen(6, 20), false],
    ["nothing was read since", seen(5, 9), seen(5, 9), false],
    ["the last reading failed", seen(5, 9), seen(5), false],
    ["nothing was ever read", NO_OBSERVED_WORK, NO_OBSERVED_WORK, false],
  ])("that was not answered in time, while %s", (_name, before, after, counts) => {
    const answer = { failed: "no answer within 30000 ms" };
    expect(assessReply(answer, { at: 10, isLate: true, before, after })).toEqual(counts ? answer : "unclear");
  });
});
