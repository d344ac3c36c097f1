import { describe, expect, it } from "vitest";
import { type Generated, measureSpeed, NOTHING_GENERATED, reportedSpeed, smoothSpeed } from "./speed.ts";

const of = (tokens: number, seconds: number): Generated => ({ tokens, seconds });

describe("the speed of an engine", () => {
  it("is what it generated since the last measurement, by the time it spent on that", () => {
    const first = measureSpeed(NOTHING_GENERATED, of(400, 10));
    expect(first).toEqual({ counted: of(400, 10), tokensPerSecond: 40 });
    expect(measureSpeed(first.counted, of(1400, 30))).toMatchObject({ tokensPerSecond: 50 });
  });

  it.each([
    ["a few tokens", of(99, 30)],
    ["a moment", of(5_000, 0.9)],
    ["nothing at all", of(0, 0)],
  ])("is not reported by %s, which count for the next measurement", (_, now) => {
    expect(measureSpeed(NOTHING_GENERATED, now)).toEqual({ counted: NOTHING_GENERATED });
  });

  it("is not reported by replies of one token, which take no time", () => {
    const now = of(1_000_000, 1);
    expect(measureSpeed(NOTHING_GENERATED, now)).toEqual({ counted: now });
    // Nor do they make what follows look fast.
    const many = of(30_000, 0.03);
    expect(measureSpeed(NOTHING_GENERATED, many)).toEqual({ counted: many });
    expect(measureSpeed(many, of(30_400, 10.03))).toMatchObject({ tokensPerSecond: expect.closeTo(40) });
  });

  it("starts again when counters go back", () => {
    expect(measureSpeed(of(900, 9), of(10, 0.1))).toEqual({ counted: of(10, 0.1) });
  });

  it("follows slowly", () => {
    expect(smoothSpeed(undefined, 40)).toBe(40);
    expect(smoothSpeed(40, 20)).toBe(36);
    let speed = 40;
    for (let count = 0; count < 20; count++) speed = smoothSpeed(speed, 20);
    expect(speed).toBeCloseTo(20, 0);
  });

  it("is reported with two digits, and again only when it has moved by more than a tenth", () => {
    expect(reportedSpeed(undefined, 41.7)).toBe(42);
    expect(reportedSpeed(undefined, 1234)).toBe(1200);
    expect(reportedSpeed(undefined, 0.0347)).toBe(0.035);
    expect(reportedSpeed(42, 46.1)).toBe(42);
    expect(reportedSpeed(42, 37.9)).toBe(42);
    expect(reportedSpeed(42, 46.3)).toBe(46);
    expect(reportedSpeed(42, 37.7)).toBe(38);
  });
});
