import { expect, test } from "vitest";
import { createMoving, type Departure } from "./moving.ts";

test("a move that pods give up leaves those of hosts as they are, also from a machine of the same name", () => {
  const moving = createMoving();
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
  expect(moving.end((_, { by }) => by === "pod")).toEqual([]);
  expect(moving.end(() => true)).toEqual(["a/chat"]);
  expect(left()).toEqual([]);
});
