import { expect, test } from "vitest";
import { createLineSplitter, LogRing } from "./ring.ts";

const line = (number: number) => JSON.stringify({ line: `line ${number}`, replica: "chat-0" });

test("a full ring keeps the newest lines in order, and counts those that it dropped", () => {
  const ring = new LogRing(3);
  ring.push([line(1), line(2)]);
  expect([ring.length, ring.dropped, ring.at(0).line]).toEqual([2, 0, "line 1"]);
  ring.push([line(3), line(4), line(5), line(6), line(7)]);
  expect([ring.length, ring.dropped]).toEqual([3, 4]);
  expect([0, 1, 2].map((index) => ring.at(index).line)).toEqual(["line 5", "line 6", "line 7"]);
});

test("the text of a ring has times where there are any, and replicas where there are several", () => {
  const ring = new LogRing(3);
  ring.push([JSON.stringify({ at: "2026-11-27T20:00:00Z", line: "a", replica: "x" }), line(2)]);
  expect(ring.text(false)).toBe("2026-11-27T20:00:00Z a\nline 2\n");
  expect(ring.text(true)).toBe("2026-11-27T20:00:00Z x a\nchat-0 line 2\n");
  expect(new LogRing().text(true)).toBe("");
});

test("a line that is no JSON is shown as it is", () => {
  const ring = new LogRing();
  ring.push(["not json"]);
  expect(ring.at(0).line).toBe("not json");
});

test("chunks are split wherever they were cut; empty lines are left out", () => {
  const split = createLineSplitter();
  expect(["a\nb", "c\n\n", "\nd", "e", "\n"].map(split)).toEqual([["a"], ["bc"], [], [], ["de"]]);
});
