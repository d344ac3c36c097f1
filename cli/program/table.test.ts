import { expect, test } from "vitest";
import { alignColumns } from "./table.ts";

test("columns are as wide as their widest cell, and lines end without blanks", () => {
  expect(
    alignColumns([
      ["A", "LONG TITLE", ""],
      ["a longer", "b"],
      ["", "", "c"],
    ]),
  ).toEqual(["A         LONG TITLE", "a longer  b", "                      c"]);
  expect(alignColumns([])).toEqual([]);
});
