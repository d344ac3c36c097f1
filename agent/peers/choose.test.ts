/** Who gives what to whom in a fleet. */
import { expect, test } from "vitest";
import { choosePeers } from "./choose.ts";

const content = "a".repeat(64);
const names = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}`);
const at = (second: number): string => `2026-01-01T00:00:${String(second).padStart(2, "0")}.000Z`;
const line = (count: number) => names("f", count).map((name, index) => ({ name, since: at(index) }));
const choose = (self: string, holders: readonly string[], fetchers = line(5)) =>
  choosePeers({ self, content, holders, fetchers });

test("without a holder the first in line goes to the origin, and each other to the one before it", () => {
  expect(choose("f0", [])).toEqual({ from: "origin" });
  for (const place of [1, 2, 3, 4])
    expect(choose(`f${place}`, [])).toEqual({ from: "peers", givers: [`f${place - 1}`] });
});

test("hosts that began at the same time stand in line by name", () => {
  const fetchers = ["c", "a", "b"].map((name) => ({ name, since: at(0) }));
  expect(choosePeers({ self: "a", content, holders: [], fetchers })).toEqual({ from: "origin" });
  expect(choosePeers({ self: "c", content, holders: [], fetchers })).toEqual({
    from: "peers",
    givers: ["b"],
  });
});

test.each([1, 2, 3, 7, 40])("no giver gives to two hosts with %d holders", (count) => {
  const holders = names("h", count);
  const fetchers = line(12);
  const givers = fetchers.flatMap(({ name }) => {
    const choice = choose(name, holders, fetchers);
    return choice.from === "peers" ? choice.givers : [];
  });
  expect(new Set(givers).size).toBe(givers.length);
  expect(fetchers.every(({ name }) => choose(name, holders, fetchers).from === "peers")).toBe(true);
});

test("a host alone has up to three holders for itself", () => {
  const choice = choose("f0", names("h", 9), line(1));
  expect(choice.from === "peers" && choice.givers).toHaveLength(3);
});
