import fc from "fast-check";
import { expect, test } from "vitest";
import { type AcceptedKeys, acceptKeys, parseAccepted, renderAccepted } from "./accepted-keys.ts";

const OVERLAP_MS = 5 * 60_000;
const NONE: AcceptedKeys = { current: [], retired: new Map() };

/** Through the files, as between two readings. */
const restored = (state: AcceptedKeys) => {
  const { accepted, retired } = renderAccepted(state);
  return parseAccepted(accepted, retired);
};
const accepted = ({ current, retired }: AcceptedKeys) => [...current, ...retired.keys()];

/** Any number of readings, of Secrets with up to 1,000 keys, at any times. */
const readings = fc.array(
  fc.record({
    from: fc.nat(5_000),
    count: fc.oneof(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 990, max: 1_000 })),
    afterMs: fc.oneof(fc.constant(60_000), fc.integer({ min: -600_000, max: 600_000 })),
  }),
  { minLength: 1, maxLength: 12 },
);

test("at most 2,000 keys are accepted, and none for more than 5 minutes after its removal from the Secret", () => {
  fc.assert(
    fc.property(readings, (all) => {
      let nowMs = 1_000_000_000;
      let state = NONE;
      const lastSeenMs = new Map<string, number>();
      for (const { from, count, afterMs } of all) {
        nowMs += afterMs;
        const keys = Array.from({ length: count }, (_, index) => `key ${from + index}`);
        const held = state.current;
        state = restored(acceptKeys(state, keys, { nowMs, overlapMs: OVERLAP_MS }));
        for (const key of held) lastSeenMs.set(key, nowMs);
        expect(state.current).toEqual(keys);
        expect(accepted(state).length).toBeLessThanOrEqual(2_000);
        const wrong = [...state.retired].filter(
          ([key, untilMs]) => untilMs <= nowMs || untilMs > (lastSeenMs.get(key) ?? 0) + OVERLAP_MS,
        );
        expect(wrong).toEqual([]);
      }
    }),
    { numRuns: 50 },
  );
});

test("a Secret that changes at every reading does not extend the time of removed keys", () => {
  let state = acceptKeys(NONE, ["stolen"], { nowMs: 0, overlapMs: OVERLAP_MS });
  for (let minute = 1; minute <= 6; minute += 1) {
    state = restored(acceptKeys(state, [`new-${minute}`], { nowMs: minute * 60_000, overlapMs: OVERLAP_MS }));
    expect(accepted(state).includes("stolen")).toBe(minute < 6);
  }
});

test("a key that is added again is a key of the Secret again", () => {
  const at = (nowMs: number) => ({ nowMs, overlapMs: OVERLAP_MS });
  const rotated = acceptKeys(acceptKeys(NONE, ["old"], at(0)), ["new"], at(1));
  expect(acceptKeys(rotated, ["old"], at(2))).toEqual({
    current: ["old"],
    retired: new Map([["new", 2 + OVERLAP_MS]]),
  });
});

test("keys in the file of accepted keys that are neither in the Secret nor in the file of removed keys count as removed now", () => {
  const state = acceptKeys(parseAccepted("new\nold\n", ""), ["new"], { nowMs: 0, overlapMs: OVERLAP_MS });
  expect(state).toEqual({ current: ["new"], retired: new Map([["old", OVERLAP_MS]]) });
});
