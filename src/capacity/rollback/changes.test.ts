import { expect, test } from "vitest";
import { changesBetween, renderChange } from "./changes.ts";

test("only what differs, by its path", () => {
  const from = { a: 1, same: { x: [1] }, nested: { in: "x", out: true }, gone: "bye" };
  const to = { a: 2, same: { x: [1] }, nested: { in: "two words", out: true }, list: [1, 2] };
  expect(changesBetween(from, to).map(renderChange)).toEqual([
    "a 1 -> 2",
    "gone bye -> unset",
    "list unset -> [1,2]",
    'nested.in x -> "two words"',
  ]);
});

test("a field that is undefined is one that is not there", () => {
  expect(changesBetween({ a: undefined }, {})).toEqual([]);
});
