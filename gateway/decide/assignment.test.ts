import { expect, test } from "vitest";
import { type Assignment, decodeAssignment, encodeAssignment } from "./assignment.ts";

const assignment: Assignment = {
  caller: "team-a",
  model: "apps/chat",
  host: "mac-1",
  waitedMs: 12,
  traceParent: undefined,
};

test("an assignment is decoded as it was encoded, and other text is not decoded", () => {
  expect(decodeAssignment(encodeAssignment(assignment))).toEqual(assignment);
  expect(decodeAssignment("")).toBeUndefined();
  expect(decodeAssignment("bm90IGpzb24")).toBeUndefined();
});
