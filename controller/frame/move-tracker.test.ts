import { expect, test } from "vitest";
import { createMoveTracker, type Departure, MOVE_MS, type MoveResult, moveEndOf } from "./move-tracker.ts";

test("giving up the moves of pods does not affect moves of replicas on hosts, even from a machine of the same name", () => {
  const results: MoveResult[] = [];
  const moving = createMoveTracker((result) => results.push(result));
  const leave = (by: Departure["by"], machine: string) =>
    moving.start("a/chat", { by, machine, because: "it fell", sinceMs: 0, notTo: [] });
  leave("replica", "mac-1");
  leave("pod", "mac-1");
  leave("pod", "node-1");
  leave("pod", "node-1");
  const left = () => moving.from("a/chat").map(({ by, machine }) => `${by} ${machine}`);
  expect(left()).toEqual(["replica mac-1", "pod mac-1", "pod node-1"]);
  moving.giveUp("a/chat");
  expect(left()).toEqual(["replica mac-1"]);
  expect(results).toEqual(["GivenUp", "GivenUp"]);
  expect(moving.end((_, { by }) => (by === "pod" ? "Moved" : undefined))).toEqual([]);
  expect(moving.end(() => "Moved")).toEqual(["a/chat"]);
  expect(left()).toEqual([]);
  expect(results).toEqual(["GivenUp", "GivenUp", "Moved"]);
});

test("a move of a service that was deleted ends without a result", () => {
  const results: MoveResult[] = [];
  const moving = createMoveTracker((result) => results.push(result));
  moving.start("a/chat", { by: "replica", machine: "mac-1", because: "it fell", sinceMs: 0, notTo: [] });
  expect(moving.end(() => "NoService")).toEqual(["a/chat"]);
  expect(moving.from("a/chat")).toEqual([]);
  expect(results).toEqual([]);
});

test.each([
  ["the service was deleted", { hasService: false, isOnMachine: false }, MOVE_MS, "NoService"],
  ["the machine was left", { hasService: true, isOnMachine: false }, MOVE_MS, "Moved"],
  ["half an hour has passed", { hasService: true, isOnMachine: true }, MOVE_MS, "GivenUp"],
  ["it is under way", { hasService: true, isOnMachine: true }, MOVE_MS - 1, undefined],
] as const)("a move ends by what is seen: %s", (_, seen, afterMs, expected) => {
  expect(moveEndOf(seen, 1_000, 1_000 + afterMs)).toBe(expected);
});
