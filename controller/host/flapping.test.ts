import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  FLAP_CHANGES,
  FLAP_HOLD_MS,
  FLAP_WINDOW_MS,
  type FlapBook,
  noteVerdict,
  openFlapBook,
  readFlapping,
} from "./flapping.ts";
import type { Verdict } from "./liveness.ts";

const MINUTE = 60_000;
const up: Verdict = { at: "reachable" };
const down: Verdict = { at: "unreachable", silentMs: 40_000 };

/** Verdicts at minutes. */
function history(
  verdicts: readonly (readonly [number, Verdict])[],
  book = openFlapBook(true, false, 0),
): FlapBook {
  return verdicts.reduce((now, [minute, verdict]) => noteVerdict(now, verdict, minute * MINUTE), book);
}

describe("a host", () => {
  test("that goes and comes back once is steady", () => {
    expect(
      readFlapping(
        history([
          [1, down],
          [2, up],
        ]),
        2 * MINUTE,
      ),
    ).toBeUndefined();
  });

  test("with three changes in ten minutes flaps until ten minutes after the last", () => {
    const book = history([
      [1, down],
      [2, up],
      [9, down],
    ]);
    expect(readFlapping(book, 9 * MINUTE)).toEqual({ changes: 3, untilMs: 19 * MINUTE });
    expect(readFlapping(book, 19 * MINUTE - 1)).toBeDefined();
    expect(readFlapping(book, 19 * MINUTE)).toBeUndefined();
  });

  test("with three changes spread over longer is steady", () => {
    expect(
      readFlapping(
        history([
          [1, down],
          [6, up],
          [11, down],
        ]),
        11 * MINUTE,
      ),
    ).toBeUndefined();
  });

  test("that changes once more while it is held is held for longer", () => {
    const book = history([
      [1, down],
      [2, up],
      [3, down],
      [12, up],
    ]);
    expect(readFlapping(book, 12 * MINUTE)).toEqual({ changes: 3, untilMs: 13 * MINUTE });
    const often = history([
      [1, down],
      [2, up],
      [3, down],
      [8, up],
    ]);
    expect(readFlapping(often, 8 * MINUTE)).toEqual({ changes: 4, untilMs: 18 * MINUTE });
  });

  test("repeated verdicts, mass expiry and a loss after silence are no changes", () => {
    const lost: Verdict = { at: "lost", silentMs: 300_000, isDeclared: false };
    const mass: Verdict = { at: "massExpiry", silentMs: 50_000 };
    const book = history([
      [1, down],
      [2, down],
      [3, lost],
      [4, up],
      [5, mass],
      [6, up],
    ]);
    expect(book.changesMs).toEqual([MINUTE, 4 * MINUTE]);
  });

  test("seen for the first time has not changed", () => {
    expect(history([[1, up]], openFlapBook(undefined, false, 0)).changesMs).toEqual([]);
  });

  test("that was held by the controller before is held afresh", () => {
    const book = openFlapBook(true, true, 0);
    expect(readFlapping(book, FLAP_HOLD_MS - 1)).toEqual({ changes: 0, untilMs: FLAP_HOLD_MS });
    expect(readFlapping(book, FLAP_HOLD_MS)).toBeUndefined();
  });
});

test("whatever happens, the book stays small and a host that rests is steady in the end", () => {
  const steps = fc.array(fc.tuple(fc.integer({ min: 1, max: 5 * MINUTE }), fc.constantFrom(up, down)), {
    maxLength: 200,
  });
  fc.assert(
    fc.property(steps, (all) => {
      let book = openFlapBook(true, false, 0);
      let now = 0;
      for (const [passes, verdict] of all) {
        now += passes;
        book = noteVerdict(book, verdict, now);
        const flapping = readFlapping(book, now);
        if (flapping !== undefined) expect(flapping.changes).toBeGreaterThanOrEqual(FLAP_CHANGES);
        for (const atMs of book.changesMs)
          expect((book.changesMs.at(-1) ?? 0) - atMs).toBeLessThan(FLAP_WINDOW_MS + FLAP_HOLD_MS);
      }
      expect(readFlapping(book, now + FLAP_HOLD_MS)).toBeUndefined();
    }),
  );
});
