import { expect, test } from "vitest";
import { ANNOTATION_APPLIED } from "../../../src/api/group.ts";
import { wasEdited } from "./apply-object.ts";

const object = (resourceVersion: string, change: object = {}, metadata: object = {}) => ({
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: {
    name: "chat",
    resourceVersion,
    labels: { ours: "1" },
    annotations: { [ANNOTATION_APPLIED]: "abc" },
    ...metadata,
  },
  spec: { replicas: 1 },
  ...change,
});

test.each([
  ["an edit that the apply took back", object("1", { spec: { replicas: 5 } }), true],
  ["a label of ours that was changed", object("1", {}, { labels: { ours: "2" } }), true],
  ["a cache that was behind a new status", object("1", { status: { replicas: 0 } }), false],
  [
    "a cache that was behind another client's label",
    object("1", {}, { labels: { ours: "1", x: "y" } }),
    false,
  ],
  ["a change of the service", object("1", { spec: { replicas: 5 } }, { annotations: {} }), false],
])("%s: was edited", (_, before, expected) => {
  const after = object("2", { status: { replicas: 1 } });
  expect(wasEdited(before, after, object(""))).toBe(expected);
});

test("an object that a webhook rewrites each time was not edited", () => {
  const rewritten = { spec: { replicas: 7 } };
  expect(wasEdited(object("1", rewritten), object("2", rewritten), object(""))).toBe(false);
});
