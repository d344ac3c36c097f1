import { expect, test } from "vitest";
import { inOrderOf } from "./in-order.ts";

const row = (name: string, ready = 0) => ({ namespace: "default", name, ready });

test("rows are sorted once, and keep their order while only their figures change", () => {
  const sorted = inOrderOf([], [row("b-10"), row("b-9"), row("a")]);
  expect(sorted.map(({ name }) => name)).toEqual(["a", "b-9", "b-10"]);
  expect(inOrderOf(sorted, [row("b-10", 1), row("b-9", 2), row("a", 3)]).map(({ ready }) => ready)).toEqual([
    3, 2, 1,
  ]);
  expect(inOrderOf(sorted, [row("a0"), row("b-9")]).map(({ name }) => name)).toEqual(["a0", "b-9"]);
  expect(inOrderOf(sorted, [...sorted, row("b-1")]).map(({ name }) => name)).toEqual([
    "a",
    "b-1",
    "b-9",
    "b-10",
  ]);
});
