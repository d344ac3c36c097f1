import { expect, test } from "vitest";
import type { KeepWarmWindow } from "../../../src/api/inference-service/idle.ts";
import { windowState } from "./windows.ts";

const at = (text: string): number => Date.parse(text);
const shown = (windows: readonly KeepWarmWindow[], now: string): string => {
  const { isOpen, changesAtMs } = windowState(windows, at(now));
  const change = changesAtMs === undefined ? "always" : new Date(changesAtMs).toISOString().slice(0, 16);
  return `${isOpen ? "open" : "closed"} until ${change}`;
};

const office: KeepWarmWindow = {
  days: ["Mon", "Tue", "Wed", "Thu", "Fri"],
  start: "08:00",
  end: "18:00",
  timeZone: "Europe/Berlin",
};
const night: KeepWarmWindow = { days: ["Sat"], start: "22:00", end: "06:00", timeZone: "UTC" };
const day: KeepWarmWindow = { start: "00:00", end: "24:00" };

test.each([
  [
    "before it starts on a Monday in winter",
    [office],
    "2026-01-05T06:59:59Z",
    "closed until 2026-01-05T07:00",
  ],
  ["once it has started", [office], "2026-01-05T07:00:00Z", "open until 2026-01-05T17:00"],
  ["in summer, an hour earlier in UTC", [office], "2026-07-06T06:00:00Z", "open until 2026-07-06T16:00"],
  [
    "on a weekend across the change of the clocks",
    [office],
    "2026-03-28T12:00:00Z",
    "closed until 2026-03-30T06:00",
  ],
  ["over midnight", [night], "2026-01-04T05:59:00Z", "open until 2026-01-04T06:00"],
  [
    "on the day of its end, until the next week",
    [night],
    "2026-01-04T22:00:00Z",
    "closed until 2026-01-10T22:00",
  ],
  [
    "if windows overlap, until the last ends",
    [office, night, day],
    "2026-01-05T10:00:00Z",
    "open until 2026-01-06T00:00",
  ],
  ["without windows", [], "2026-01-05T10:00:00Z", "closed until always"],
] as const)("a window is evaluated %s", (_, windows, now, expected) => {
  expect(shown(windows, now)).toBe(expected);
});

test("a window of every whole day opens again the moment it ends", () => {
  expect(shown([day], "2026-01-05T23:59:59Z")).toBe("open until 2026-01-06T00:00");
  expect(shown([day], "2026-01-06T00:00:00Z")).toBe("open until 2026-01-07T00:00");
});

test("a window in a time zone that is unknown here counts as open", () => {
  const state = windowState([{ ...office, timeZone: "Mars/Base" }], at("2026-01-03T00:00:00Z"));
  expect(state).toEqual({ isOpen: true, unknownZone: "Mars/Base" });
});
