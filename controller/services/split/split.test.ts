import { expect, test } from "vitest";
import { spillOver } from "./split.ts";

test.each([
  ["everything fits on the preferred side", 3, { ready: 3, lacking: 0 }, 0, 0],
  ["a start: nothing is lacking yet", 3, { ready: 0, lacking: 0 }, 0, 0],
  ["one finds no place", 3, { ready: 2, lacking: 1 }, 0, 1],
  ["it has a place, and starts there: the other side serves on", 3, { ready: 2, lacking: 0 }, 1, 1],
  ["it serves there: the other side lets go", 3, { ready: 3, lacking: 0 }, 1, 0],
  ["the preferred side is gone", 3, { ready: 0, lacking: 3 }, 0, 3],
  ["scaled down", 1, { ready: 2, lacking: 0 }, 1, 0],
  ["suspended", 0, { ready: 2, lacking: 0 }, 1, 0],
])("%s", (_, desired, preferred, running, expected) => {
  expect(spillOver(desired, preferred, running)).toBe(expected);
});
