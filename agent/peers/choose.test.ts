/** The choice of peers in a fleet. */
import { expect, test } from "vitest";
import { choosePeers } from "./choose.ts";

const content = "a".repeat(64);
const names = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}`);
const at = (second: number): string => `2026-01-01T00:00:${String(second).padStart(2, "0")}.000Z`;
const line = (count: number) => names("f", count).map((name, index) => ({ name, since: at(index) }));
const choose = (self: string, holders: readonly string[], fetchers = line(5)) =>
  choosePeers({ self, content, holders, fetchers });

test("without a holder the first fetcher uses the origin, and each other one uses its predecessor", () => {
  expect(choose("f0", [])).toEqual({ from: "origin" });
  for (const place of [1, 2, 3, 4])
    expect(choose(`f${place}`, [])).toEqual({ from: "peers", peers: [`f${place - 1}`] });
});

test("fetchers that started at the same time are ordered by name", () => {
  const fetchers = ["c", "a", "b"].map((name) => ({ name, since: at(0) }));
  expect(choosePeers({ self: "a", content, holders: [], fetchers })).toEqual({ from: "origin" });
  expect(choosePeers({ self: "c", content, holders: [], fetchers })).toEqual({
    from: "peers",
    peers: ["b"],
  });
});

test.each([1, 2, 3, 7, 40])("no peer serves two hosts if there are %d holders", (count) => {
  const holders = names("h", count);
  const fetchers = line(12);
  const peers = fetchers.flatMap(({ name }) => {
    const choice = choose(name, holders, fetchers);
    return choice.from === "peers" ? choice.peers : [];
  });
  expect(new Set(peers).size).toBe(peers.length);
  expect(fetchers.every(({ name }) => choose(name, holders, fetchers).from === "peers")).toBe(true);
});

test("a single fetcher uses up to three holders", () => {
  const choice = choose("f0", names("h", 9), line(1));
  expect(choice.from === "peers" && choice.peers).toHaveLength(3);
});
