import { expect, test } from "vitest";
import { PUBLISHED_MS, planRotation, type RotationStep, type TransportFiles } from "./rotation.ts";

const DAY = 86_400_000;
const NOW = Date.UTC(2026, 10, 30);

test.each<[string, TransportFiles, RotationStep | undefined]>([
  ["no file", { currentSinceMs: undefined, hasNext: false }, "createCurrent"],
  ["the current one is gone during a rotation", { currentSinceMs: undefined, hasNext: true }, "useNext"],
  ["a new one", { currentSinceMs: NOW, hasNext: false }, undefined],
  ["29 days", { currentSinceMs: NOW - 29 * DAY, hasNext: false }, undefined],
  ["30 days", { currentSinceMs: NOW - 30 * DAY, hasNext: false }, "createNext"],
  ["a clock that was set back by a day", { currentSinceMs: NOW + DAY, hasNext: false }, undefined],
  ["a clock that starts in 1970", { currentSinceMs: NOW + 20_000 * DAY, hasNext: false }, undefined],
  ["a file of 1970", { currentSinceMs: 0, hasNext: false }, "createNext"],
  ["the next one is not published", { currentSinceMs: NOW - 31 * DAY, hasNext: true }, undefined],
  [
    "the next one has just been published",
    { currentSinceMs: NOW - 31 * DAY, hasNext: true, nextPublishedForMs: 0 },
    undefined,
  ],
  [
    "the next one is published for long enough",
    { currentSinceMs: NOW - 31 * DAY, hasNext: true, nextPublishedForMs: PUBLISHED_MS },
    "useNext",
  ],
  [
    "the next one is published, and the clock was set back",
    { currentSinceMs: NOW + DAY, hasNext: true, nextPublishedForMs: PUBLISHED_MS },
    "useNext",
  ],
])("%s", (_, files, expected) => {
  expect(planRotation(files, NOW)).toBe(expected);
});
