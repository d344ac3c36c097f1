import { expect, test } from "vitest";
import { changedFields, mergeEdit } from "./merge.ts";

const base = { spec: { replicas: 1, placement: { hosts: ["a"] }, contextSize: 4096 } };

test("both changes are kept if they are in different fields", () => {
  const edited = { spec: { ...base.spec, contextSize: 8192 } };
  const stored = { spec: { ...base.spec, replicas: 3, priority: "high" } };
  expect(mergeEdit(base, edited, stored)).toEqual({
    value: { spec: { replicas: 3, placement: { hosts: ["a"] }, contextSize: 8192, priority: "high" } },
    clashes: [],
  });
});

test("of one field that both have changed, the edit is kept and the field is named", () => {
  const edited = { spec: { ...base.spec, replicas: 2, placement: { hosts: ["b"] } } };
  const stored = { spec: { ...base.spec, replicas: 3 } };
  expect(mergeEdit(base, edited, stored)).toEqual({
    value: { spec: { replicas: 2, placement: { hosts: ["b"] }, contextSize: 4096 } },
    clashes: ["spec.replicas"],
  });
});

test("a field that either has removed is gone, unless the other has changed it", () => {
  const without = { spec: { replicas: 1, placement: { hosts: ["a"] } } };
  expect(mergeEdit(base, without, base).value).toEqual(without);
  expect(mergeEdit(base, base, without).value).toEqual(without);
  const changed = { spec: { ...base.spec, contextSize: 1 } };
  expect(mergeEdit(base, without, changed)).toEqual({ value: without, clashes: ["spec.contextSize"] });
});

test("changes are listed by their path, lists as a whole", () => {
  const to = { spec: { replicas: 2, placement: { hosts: ["a", "b"] }, contextSize: 4096 } };
  expect(changedFields(base, to)).toEqual([
    { field: "spec.placement.hosts", from: ["a"], to: ["a", "b"] },
    { field: "spec.replicas", from: 1, to: 2 },
  ]);
  expect(changedFields(base, base)).toEqual([]);
});
