import { expect, test } from "vitest";
import type { ClaimRow, StateWord } from "../../../../../src/console/rows.ts";
import { cellAfter, claimedShare, legendOf } from "./cells.ts";

test("the legend has each state once, in its own word, the most frequent first", () => {
  const state = (word: string, level: StateWord["level"]) => ({ state: { word, level } });
  expect(legendOf([state("Draining", "busy"), state("Ready", "ok"), state("Ready", "ok")])).toEqual([
    { word: "Ready", level: "ok", count: 2 },
    { word: "Draining", level: "busy", count: 1 },
  ]);
  expect(legendOf([])).toEqual([]);
});

test("arrow keys, Home and End move among the cells, never beyond them", () => {
  expect(cellAfter("ArrowRight", 3, 100, 10)).toBe(4);
  expect(cellAfter("ArrowDown", 3, 100, 10)).toBe(13);
  expect(cellAfter("ArrowUp", 3, 100, 10)).toBe(0);
  expect(cellAfter("ArrowDown", 95, 100, 10)).toBe(99);
  expect([cellAfter("Home", 50, 100, 10), cellAfter("End", 50, 100, 10)]).toEqual([0, 99]);
  expect(cellAfter("Enter", 3, 100, 10)).toBeUndefined();
});

test("a share of memory is between nothing and all", () => {
  const claims = [{ bytes: 30 }, { bytes: 15 }] as ClaimRow[];
  expect(claimedShare({ claims, budgetBytes: 100, reserveBytes: 10 })).toBe(0.5);
  expect(claimedShare({ claims, budgetBytes: 40, reserveBytes: 0 })).toBe(1);
  expect(claimedShare({ claims, budgetBytes: 0, reserveBytes: 0 })).toBe(0);
});
