import { expect, test } from "vitest";
import { type LabelSelector, selectorMatches } from "./kubernetes.ts";

const labels = { chip: "m4", room: "a" };

test.for<[string, LabelSelector | undefined, boolean]>([
  ["no selector", undefined, true],
  ["an empty one", {}, true],
  ["labels that are there", { matchLabels: { chip: "m4" } }, true],
  ["another value", { matchLabels: { chip: "m2" } }, false],
  ["In", { matchExpressions: [{ key: "chip", operator: "In", values: ["m3", "m4"] }] }, true],
  ["In without the label", { matchExpressions: [{ key: "rack", operator: "In", values: ["1"] }] }, false],
  ["NotIn", { matchExpressions: [{ key: "chip", operator: "NotIn", values: ["m4"] }] }, false],
  [
    "NotIn without the label",
    { matchExpressions: [{ key: "rack", operator: "NotIn", values: ["1"] }] },
    true,
  ],
  ["Exists", { matchExpressions: [{ key: "room", operator: "Exists" }] }, true],
  ["DoesNotExist", { matchExpressions: [{ key: "room", operator: "DoesNotExist" }] }, false],
  [
    "all of them, not any",
    { matchLabels: { chip: "m4" }, matchExpressions: [{ key: "rack", operator: "Exists" }] },
    false,
  ],
])("%s", ([, selector, matches]) => {
  expect(selectorMatches(selector, labels)).toBe(matches);
});

test("a host without labels matches only what asks for none", () => {
  expect(selectorMatches({}, undefined)).toBe(true);
  expect(selectorMatches({ matchLabels: { a: "b" } }, undefined)).toBe(false);
});
