import { expect, test } from "vitest";
import { cosineSimilarity, linesOf } from "./similarity.ts";

test("similarity is the cosine of the angle", () => {
  expect(cosineSimilarity([1, 0], [2, 0])).toBeCloseTo(1);
  expect(cosineSimilarity([1, 0], [0, 3])).toBe(0);
  expect(cosineSimilarity([1, 1], [-1, -1])).toBeCloseTo(-1);
  expect(cosineSimilarity([0, 0], [1, 1])).toBe(0);
  expect(cosineSimilarity([1], [1, 2])).toBe(0);
});

test("empty lines are no texts", () => {
  expect(linesOf(" a \n\n b\r\n")).toEqual(["a", "b"]);
});
