import fc from "fast-check";
import { expect, test } from "vitest";
import type { ModelState, ObservedReplica, RunRecord } from "../evidence/observed.ts";
import { nothingKnown, SERVE } from "../testing/facts.ts";
import { memoryNeedOf, reservationOf } from "./need.ts";

type Stored = Extract<ModelState, { at: "stored" }>;

function withModel(more: Partial<Stored>): ObservedReplica {
  return { ...nothingKnown(), model: { at: "stored", sizeBytes: 50, ...more } };
}

test.each<[string, number, Partial<Stored>, number]>([
  ["the files need more than was claimed", 100, { claim: { at: "estimated", bytes: 150 } }, 150],
  ["more was claimed than the files need", 100, { claim: { at: "estimated", bytes: 70 } }, 100],
  ["nothing was claimed, the files give the size", 0, { claim: { at: "estimated", bytes: 70 } }, 70],
  [
    "the header gives no size, the file is larger than the claim",
    40,
    { claim: { at: "unknown", code: "ClaimUnknown", message: "no layers" } },
    50,
  ],
])("%s", (_name, claimBytes, model, bytes) => {
  expect(memoryNeedOf({ ...SERVE, claimBytes }, withModel(model))).toEqual({ at: "known", bytes });
});

test("without a claim and without a readable header the need is unknown, with the reason", () => {
  const claim = { at: "unknown", code: "GgufTruncated", message: "cut off" } as const;
  expect(memoryNeedOf({ ...SERVE, claimBytes: 0 }, withModel({ claim }))).toEqual(claim);
  expect(memoryNeedOf({ ...SERVE, claimBytes: 0 }, nothingKnown())).toMatchObject({ code: "ClaimUnknown" });
});

const record: RunRecord = {
  runId: "a",
  revision: "r1",
  port: 21_000,
  claimBytes: 100,
  startedAt: 0,
  drainSeconds: 30,
};

test("the actual footprint replaces a smaller estimate, until it shrinks again", () => {
  const seen = withModel({ claim: { at: "estimated", bytes: 70 } });
  const taking = (bytes: number) => ({ ...seen, footprint: { lastAt: 1, bytes } });
  expect(reservationOf(SERVE, taking(180), record)).toBe(180);
  expect(reservationOf(SERVE, taking(90), { ...record, claimBytes: 180 })).toBe(100);
});

test("a new agent keeps the reservation until it has inspected weights and process", () => {
  const kept = { ...record, claimBytes: 180 };
  expect(reservationOf(SERVE, nothingKnown(), kept)).toBe(180);
  expect(reservationOf(SERVE, withModel({ claim: { at: "estimated", bytes: 70 } }), kept)).toBe(180);
  expect(reservationOf({ ...SERVE, claimBytes: 0 }, nothingKnown(), kept)).toBe(180);
});

test("the reservation is never less than any known figure", () => {
  const size = fc.nat(1_000_000);
  fc.assert(
    fc.property(size, size, size, size, (claimBytes, bytes, footprint, before) => {
      const observed = {
        ...withModel({ claim: { at: "estimated", bytes } }),
        footprint: { lastAt: 1, bytes: footprint },
      };
      const held = reservationOf({ ...SERVE, claimBytes }, observed, { ...record, claimBytes: before });
      expect(held).toBe(Math.max(claimBytes, bytes, footprint));
    }),
  );
});
