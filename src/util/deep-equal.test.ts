import fc from "fast-check";
import { expect, it } from "vitest";
import { isDeepEqual } from "./deep-equal.ts";
import { canonicalJson } from "./hash.ts";

it("agrees with the canonical JSON of any two values", () => {
  const value = fc.jsonValue({ maxDepth: 3 }).filter((json) => !/-0/.test(JSON.stringify(json)));
  fc.assert(
    fc.property(value, value, (a, b) => {
      expect(isDeepEqual(a, b)).toBe(canonicalJson(a) === canonicalJson(b));
      expect(isDeepEqual(a, structuredClone(a))).toBe(true);
    }),
  );
});

it("takes an undefined key for an absent one, on either side, and lists by their length", () => {
  expect(isDeepEqual({ a: 1, b: undefined }, { a: 1 })).toBe(true);
  expect(isDeepEqual({ a: 1 }, { a: 1, b: undefined })).toBe(true);
  expect(isDeepEqual({ a: 1 }, { a: 1, b: null })).toBe(false);
  expect(isDeepEqual([1], [1, 2])).toBe(false);
  expect(isDeepEqual([], {})).toBe(false);
});
