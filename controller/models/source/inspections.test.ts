/** When a source is read again, whatever its server answered and asked for. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Model } from "../../../src/api/model.ts";
import { statusFailure } from "../../../src/hub/failure.ts";
import { type InspectionRecord, isInspectionDue, recordInspection } from "./inspections.ts";

const model = { metadata: { name: "tiny", uid: "u1", generation: 1 }, spec: {} } as unknown as Model;
const MINUTES_MS = 60_000;

test("a source that fails is read again 5 s to 12 minutes later, sooner only where its server says so", () => {
  const answer = fc.record({
    status: fc.constantFrom(401, 404, 408, 429, 500, 503),
    retryAfter: fc.oneof(fc.constant(undefined), fc.nat(700).map(String), fc.string(), fc.nat().map(String)),
    random: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
  });
  fc.assert(
    fc.property(
      fc.array(answer, { minLength: 1, maxLength: 40, size: "max" }),
      fc.nat(),
      (answers, startMs) => {
        let last: InspectionRecord | undefined;
        let nowMs = startMs;
        for (const { status, retryAfter, random } of answers) {
          const { error, isTransient, retryAfterMs } = statusFailure(
            new URL("http://x.test/"),
            status,
            retryAfter,
          );
          const result = { at: "failed", code: error.code, message: "", isTransient, retryAfterMs } as const;
          last = recordInspection(model, last, result, { nowMs, random });
          const delayMs = (last.nextAtMs ?? Number.NaN) - nowMs;
          expect(Math.ceil(delayMs)).toBeGreaterThanOrEqual(Math.min(5_000, retryAfterMs ?? 5_000));
          expect(Math.floor(delayMs)).toBeLessThanOrEqual(12 * MINUTES_MS);
          expect(isInspectionDue(model, last, nowMs)).toBe(false);
          nowMs += delayMs;
          expect(isInspectionDue(model, last, nowMs + 1)).toBe(true);
        }
        expect(last?.failures).toBe(answers.length);
      },
    ),
  );
});

test("a source that is watched is read at its interval, and at most 64 times less often", () => {
  const checks = fc.array(fc.constantFrom("unchanged", "unstable" as const), { minLength: 1, maxLength: 40 });
  fc.assert(
    fc.property(checks, fc.integer({ min: 1, max: 86_400_000 }), (results, checkMs) => {
      let last: InspectionRecord | undefined;
      for (const at of results) {
        const result = at === "unstable" ? { at } : { at, checkedAt: "2026-01-01T00:00:00Z" };
        last = recordInspection(model, last, result, { nowMs: 0, random: 0.5, checkMs });
        expect(last.nextAtMs).toBeGreaterThanOrEqual(checkMs);
        expect(last.nextAtMs).toBeLessThanOrEqual(checkMs * 64 * 1.2);
      }
    }),
  );
});
