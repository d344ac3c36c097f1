import { expect, test } from "vitest";
import type { ClaimRow, HostRow } from "../../../src/console/rows.ts";
import { freeBytesOf, withoutService } from "./free-bytes.ts";

const claims = [{ bytes: 10 }, { bytes: 5 }] as ClaimRow[];

test.each([
  ["what claims and reserve leave of the budget", {}, 33],
  ["less where other programs use memory", { leftBytes: 20 }, 20],
  ["below zero where the claims exceed the budget", { budgetBytes: 14, leftBytes: 0 }, -3],
])("free is %s", (_, changes, free) => {
  expect(freeBytesOf({ budgetBytes: 50, reserveBytes: 2, claims, ...changes })).toBe(free);
});

test("without a service, its claims are free, and the other programs still use their memory", () => {
  const host = {
    budgetBytes: 50,
    reserveBytes: 2,
    leftBytes: 20,
    claims: [
      { service: "team/a", bytes: 10 },
      { service: "team/b", bytes: 5 },
    ],
  } as unknown as HostRow;
  expect(freeBytesOf(withoutService(host, "team/a"))).toBe(30);
  expect(freeBytesOf(withoutService(host, "team/none"))).toBe(20);
});
