import { expect, test } from "vitest";
import { planLabels } from "./plan.ts";

type Labels = Readonly<Record<string, string>>;

/** A Node with these labels, of which we own `owned`. */
function node(labels: Labels, owned: readonly string[]) {
  const fields = Object.fromEntries(owned.map((key) => [`f:${key}`, {}]));
  const ours = { manager: "metalbridge-labels", operation: "Apply", apiVersion: "v1" };
  const managedFields = [{ ...ours, fieldsV1: { "f:metadata": { "f:labels": fields } } }];
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

test("managed fields that are damaged count as not ours", () => {
  const damaged = { metadata: { name: "node", labels: { a: "1" }, managedFields: ["?"] } };
  expect(planLabels(damaged as never, "v1", { a: "2", b: "1" })).toEqual({ b: "1" });
});
