import { expect, test } from "vitest";
import { planLabels } from "./plan.ts";

type Labels = Readonly<Record<string, string>>;

/** A Node with these labels, of which we own `owned`, and a user `others`. */
function node(labels: Labels, owned: readonly string[], others: readonly string[] = []) {
  const managed = (keys: readonly string[]) => ({
    "f:metadata": { "f:labels": Object.fromEntries(keys.map((key) => [`f:${key}`, {}])) },
  });
  const managedFields = [
    { manager: "kubectl", operation: "Update", apiVersion: "v1", fieldsV1: managed(others) },
    { manager: "metalbridge-labels", operation: "Apply", apiVersion: "v1", fieldsV1: managed(owned) },
  ];
  return { metadata: { name: "node", labels: { ...labels }, managedFields } };
}

test.each<readonly [string, Labels, readonly string[], Labels, Labels | undefined]>([
  ["a new label", {}, [], { a: "1" }, { a: "1" }],
  ["nothing to label", { other: "x" }, [], {}, undefined],
  ["no change", { a: "1", other: "x" }, ["a"], { a: "1" }, undefined],
  ["a changed fact", { a: "1" }, ["a"], { a: "2" }, { a: "2" }],
  ["a fact that is no longer true", { a: "1", b: "1" }, ["a", "b"], { b: "1" }, { b: "1" }],
  ["the last fact", { a: "1" }, ["a"], {}, {}],
  ["a label of another manager", { a: "theirs" }, [], { a: "1", b: "1" }, { b: "1" }],
  ["only labels of another manager", { a: "theirs" }, [], { a: "1" }, undefined],
  ["a new prefix", { "x/a": "1" }, ["x/a"], { "y/a": "1" }, { "y/a": "1" }],
])("%s", (_, labels, owned, derived, expected) => {
  expect(planLabels(node(labels, owned), "v1", derived)).toEqual(expected);
});

test.each<readonly [string, Labels, Labels | undefined]>([
  ["the same value", { a: "1", b: "1" }, undefined],
  ["another value, which would be a conflict forever", { a: "2", b: "1" }, { b: "1" }],
  ["no value", { b: "1" }, { b: "1" }],
])("a label that another manager owns too, with %s", (_, derived, expected) => {
  expect(planLabels(node({ a: "1", b: "1" }, ["a", "b"], ["a"]), "v1", derived)).toEqual(expected);
});

test("managed fields that are damaged count as not ours", () => {
  const damaged = { metadata: { name: "node", labels: { a: "1" }, managedFields: ["?"] } };
  expect(planLabels(damaged as never, "v1", { a: "2", b: "1" })).toEqual({ b: "1" });
});
