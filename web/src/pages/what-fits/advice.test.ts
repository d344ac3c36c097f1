import { expect, test } from "vitest";
import type { QueryRow } from "../../api/density.ts";
import { adviceFor } from "./advice.ts";

const GIB = 1_024 ** 3;
const row = (fields: Partial<QueryRow>) =>
  ({
    fitLevel: "good",
    fitsNow: true,
    stale: false,
    schedulable: true,
    model: { memory_required_gb: 9, memory_available_gb: 24 },
    ...fields,
  }) as QueryRow;

test.each([
  ["a machine that could take it now needs no advice", row({}), 10 * GIB, ""],
  ["a full machine says how much must be freed", row({ fitsNow: false }), 5.5 * GIB, "Free 3.5 GiB: stop"],
  ["a full machine of unknown use says what to do", row({ fitsNow: false }), undefined, "Stop or move"],
  ["a cordoned machine is uncordoned first", row({ schedulable: false, fitsNow: false }), 0, "Uncordon"],
  ["a silent machine is checked first", row({ stale: true, schedulable: false }), 0, "The machine does not"],
  [
    "a small machine says what is missing in all",
    row({
      fitLevel: "too_tight",
      model: { memory_required_gb: 30, memory_available_gb: 24, best_quant: "Q2_K" } as QueryRow["model"],
    }),
    0,
    "6 GiB short, even with Q2_K",
  ],
])("%s", (_, input, leftBytes, start) => {
  const advice = adviceFor(input, leftBytes);
  expect(start === "" ? advice : advice.slice(0, start.length)).toBe(start);
});
