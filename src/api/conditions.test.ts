import { expect, test } from "vitest";
import {
  type Condition,
  getCondition,
  isConditionTrue,
  removeCondition,
  setCondition,
} from "./conditions.ts";

const FIRST = "2026-01-01T00:00:00Z";
const LATER = "2026-01-01T00:05:00Z";
const ready = { type: "Ready", status: "True", reason: "Serving", message: "it answers" } as const;

test("a first condition gets the time it was set", () => {
  expect(setCondition(undefined, ready, FIRST)).toEqual([{ ...ready, lastTransitionTime: FIRST }]);
});

test("the time moves only when the status changes", () => {
  const first = setCondition([], ready, FIRST);
  const sameStatus = setCondition(
    first,
    { ...ready, reason: "Other", message: "still", observedGeneration: 2 },
    LATER,
  );
  expect(sameStatus).toEqual([
    { ...ready, reason: "Other", message: "still", observedGeneration: 2, lastTransitionTime: FIRST },
  ]);
  expect(setCondition(sameStatus, { ...ready, status: "False" }, LATER)[0]?.lastTransitionTime).toBe(LATER);
});

test("order is by type whatever the order of setting, so that equal states compare equal", () => {
  const types = ["Ready", "Available", "Placed"];
  const set = (list: string[]) =>
    list.reduce<Condition[]>((conditions, type) => setCondition(conditions, { ...ready, type }, FIRST), []);
  expect(set(types)).toEqual(set([...types].reverse()));
  expect(set(types).map((condition) => condition.type)).toEqual(["Available", "Placed", "Ready"]);
});

test("a message of any length is stored in 4,096 characters", () => {
  const message = "x".repeat(40_000);
  expect(setCondition([], { ...ready, message }, FIRST)[0]?.message).toHaveLength(4_096);
});

test("the given list is left as it was", () => {
  const before = Object.freeze(setCondition([], ready, FIRST));
  setCondition(before, { ...ready, status: "False" }, LATER);
  expect(before[0]?.status).toBe("True");
});

test("absent and Unknown are not True", () => {
  expect(isConditionTrue(undefined, "Ready")).toBe(false);
  expect(isConditionTrue(setCondition([], { ...ready, status: "Unknown" }, FIRST), "Ready")).toBe(false);
  expect(isConditionTrue(setCondition([], ready, FIRST), "Ready")).toBe(true);
  expect(getCondition(removeCondition(setCondition([], ready, FIRST), "Ready"), "Ready")).toBeUndefined();
});
