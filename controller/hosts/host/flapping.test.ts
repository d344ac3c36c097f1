import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { setCondition } from "../../../src/api/conditions.ts";
import type { Host } from "../../../src/api/host.ts";
import { reachableUpdate } from "./conditions.ts";
import {
  changesAfter,
  FLAP_CHANGES,
  FLAP_HOLD_MS,
  FLAP_WINDOW_MS,
  MAX_FLAP_CHANGES,
  readFlapping,
} from "./flapping.ts";
import type { LivenessVerdict } from "./liveness.ts";

const MINUTE = 60_000;
const up: LivenessVerdict = { at: "reachable" };
const down: LivenessVerdict = { at: "unreachable", silentMs: 40_000 };
const mass: LivenessVerdict = { at: "massExpiry", silentMs: 50_000 };
const neverSeen: LivenessVerdict = { at: "neverSeen" };

type Status = NonNullable<Host["status"]>;

const START_MS = Date.parse("2026-01-01T00:00:00Z");
const at = (minute: number) => new Date(START_MS + minute * MINUTE).toISOString().replace(/\.\d{3}Z$/, "Z");

/** What the Host says once the verdict is written. */
function say(status: Status, verdict: LivenessVerdict, minute: number): Status {
  const update = reachableUpdate(verdict);
  if (update === undefined) return status;
  const reachableChanges = [...changesAfter(status, update, at(minute))];
  return { conditions: setCondition(status.conditions, update, at(minute)), reachableChanges };
}

/** Verdicts at minutes. */
function history(
  verdicts: readonly (readonly [number, LivenessVerdict])[],
  status: Status = say({}, up, 0),
): Status {
  return verdicts.reduce((now, [minute, verdict]) => say(now, verdict, minute), status);
}

const changesOf = ({ reachableChanges = [] }: Status) =>
  reachableChanges.map((time) => (Date.parse(time) - START_MS) / MINUTE);

function flapping({ reachableChanges = [] }: Status, minute: number) {
  const found = readFlapping(reachableChanges, at(minute));
  return found && { changes: found.changes, untilMinute: (found.untilMs - START_MS) / MINUTE };
}

describe("a host", () => {
  test("a host that is unreachable once is steady", () => {
    const status = history([
      [1, down],
      [2, up],
    ]);
    expect(flapping(status, 2)).toBeUndefined();
  });

  test("a host with three changes in ten minutes is flapping until ten minutes after the last", () => {
    const status = history([
      [1, down],
      [2, up],
      [9, down],
    ]);
    expect(flapping(status, 9)).toEqual({ changes: 3, untilMinute: 19 });
    expect(readFlapping(status.reachableChanges ?? [], at(9))?.untilIso).toBe("2026-01-01T00:19:00Z");
    expect(flapping(status, 18.9)).toBeDefined();
    expect(flapping(status, 19)).toBeUndefined();
  });

  test("a host with three changes over more than ten minutes is steady", () => {
    const status = history([
      [1, down],
      [6, up],
      [11, down],
    ]);
    expect(flapping(status, 11)).toBeUndefined();
  });

  test("a flapping host that changes again is flapping for longer", () => {
    const once = history([
      [1, down],
      [2, up],
      [3, down],
      [12, up],
    ]);
    expect(flapping(once, 12)).toEqual({ changes: 3, untilMinute: 13 });
    const often = history([
      [1, down],
      [2, up],
      [3, down],
      [8, up],
    ]);
    expect(flapping(often, 8)).toEqual({ changes: 4, untilMinute: 18 });
  });

  test("repeated verdicts, mass expiry and a loss after silence are no changes", () => {
    const lost: LivenessVerdict = { at: "lost", silentMs: 300_000, isDeclared: false };
    const status = history([
      [1, down],
      [2, down],
      [3, lost],
      [4, up],
      [5, mass],
      [6, up],
    ]);
    expect(changesOf(status)).toEqual([1, 4]);
  });

  test("a host that becomes unreachable in a mass expiry has changed once", () => {
    const status = history([
      [1, mass],
      [2, down],
      [3, up],
    ]);
    expect(changesOf(status)).toEqual([2, 3]);
  });

  test("a host that is seen for the first time has not changed, however long that took", () => {
    expect(changesOf(history([[1, up]], {}))).toEqual([]);
    const late = history(
      [
        [1, neverSeen],
        [90, up],
      ],
      {},
    );
    expect(changesOf(late)).toEqual([]);
  });

  test("a host whose changes are from a clock far ahead does not stay flapping", () => {
    const ahead = { ...say({}, up, 0), reachableChanges: [at(9_000), at(9_000), at(9_000), "yesterday"] };
    expect(flapping(ahead, 1)).toBeUndefined();
    expect(changesOf(say(ahead, down, 1))).toEqual([1]);
  });

  test("a host whose changes are from a clock slightly ahead is flapping", () => {
    const status = history([
      [1, down],
      [2, up],
      [3, down],
    ]);
    expect(flapping(status, 2.9)).toEqual({ changes: 3, untilMinute: 13 });
  });
});

test("the stored changes are always limited, and a host without changes becomes steady", () => {
  const steps = fc.array(
    fc.tuple(fc.integer({ min: 1, max: 300 }), fc.constantFrom(up, down, mass, neverSeen)),
    { maxLength: 200 },
  );
  fc.assert(
    fc.property(steps, (all) => {
      let status: Status = say({}, up, 0);
      let minute = 0;
      for (const [seconds, verdict] of all) {
        minute += seconds / 60;
        status = say(status, verdict, minute);
        const times = (status.reachableChanges ?? []).map((time) => Date.parse(time));
        expect(times.length).toBeLessThanOrEqual(MAX_FLAP_CHANGES);
        for (const time of times)
          expect((times.at(-1) ?? 0) - time).toBeLessThan(FLAP_WINDOW_MS + FLAP_HOLD_MS);
        const found = flapping(status, minute);
        if (found !== undefined) expect(found.changes).toBeGreaterThanOrEqual(FLAP_CHANGES);
      }
      expect(flapping(status, minute + FLAP_HOLD_MS / MINUTE)).toBeUndefined();
    }),
  );
});

const reachable = (status: "True" | "False" | "Unknown", reason = "R"): Status => ({
  conditions: [{ type: "Reachable", status, reason, message: "", lastTransitionTime: at(0) }],
  reachableChanges: [at(0)],
});

test.each<[string, Status | undefined, LivenessVerdict, number, readonly number[]]>([
  ["a Host without a status has not changed", undefined, down, 5, []],
  ["one that was awaited has not changed", reachable("Unknown", "HostNeverSeen"), down, 5, [0]],
  ["one in a mass expiry was up", reachable("Unknown", "MassExpiry"), down, 5, [0, 5]],
  ["one that is counted has not changed", reachable("False"), { at: "counting" }, 5, [0]],
  ["a change is kept for less than 20 minutes", reachable("True"), down, 19, [0, 19]],
  ["and is dropped after them", reachable("True"), down, 20, [20]],
])("the changes of a host: %s", (_, status, verdict, minute, expected) => {
  const reachableChanges = changesAfter(status, reachableUpdate(verdict), at(minute));
  expect(changesOf({ reachableChanges: [...reachableChanges] })).toEqual(expected);
});

test("only the newest changes are stored", () => {
  const all = Array.from({ length: MAX_FLAP_CHANGES + 3 }, (_, index) => at(index / 10));
  const kept = changesAfter({ ...reachable("True"), reachableChanges: all }, reachableUpdate(down), at(5));
  expect(kept).toEqual([...all.slice(4), at(5)]);
});

test.each<[string, readonly number[], number, object | undefined]>([
  ["in any order", [2, 0, 1], 3, { changes: 3, untilMinute: 12 }],
  ["the third of which is a whole window later", [0, 1, 10], 11, undefined],
  ["one of which lies a whole window ahead", [0, 1, 15], 5, undefined],
])("flapping is read from changes %s", (_, minutes, now, expected) => {
  expect(flapping({ reachableChanges: minutes.map(at) }, now)).toEqual(expected);
});
