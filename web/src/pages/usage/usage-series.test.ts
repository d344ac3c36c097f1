import { expect, test } from "vitest";
import type { UsageRow } from "../../../../src/gateway/usage.ts";
import { stacked } from "../../parts/chart/stacked.ts";
import { daysUntil, monthsOf, totalsBy, usageSeries } from "./usage-series.ts";

const row = (model: string, tokensIn: number, tokensOut = 0): UsageRow => ({
  key: "ann",
  namespace: "team",
  model,
  host: "mac-1",
  requests: 1,
  estimatedRequests: 0,
  tokensIn,
  tokensOut,
  tokensCached: 0,
});

const days = daysUntil(Date.parse("2026-12-01T00:30:00Z"), 3);

test("the days end with today in UTC and may be of two months", () => {
  expect(days).toEqual(["2026-11-29", "2026-11-30", "2026-12-01"]);
  expect(monthsOf(days)).toEqual(["2026-11", "2026-12"]);
});

test("days without a record are zero, records of two gateways add up, and other days are left out", () => {
  const records = [
    { day: "2026-11-28", rows: [row("chat", 1_000_000)] },
    { day: "2026-11-30", rows: [row("chat", 5, 5), row("docs", 1)] },
    { day: "2026-11-30", rows: [row("chat", 20)] },
  ];
  expect(usageSeries(records, days, "model")).toEqual([
    { name: "chat", values: [0, 30, 0] },
    { name: "docs", values: [0, 1, 0] },
  ]);
  expect(totalsBy(records, days, "model").map(({ model, requests }) => [model, requests])).toEqual([
    ["chat", 2],
    ["docs", 1],
  ]);
});

test("of more than six models, the five largest are named and the others are one", () => {
  const rows = Array.from({ length: 9 }, (_, index) => row(`model-${index}`, 100 - index));
  const series = usageSeries([{ day: "2026-12-01", rows }], days, "model");
  expect(series.map(({ name }) => name)).toEqual(["model-0", "model-1", "model-2", "model-3", "model-4", ""]);
  expect(series.at(-1)?.values.at(-1)).toBe(95 + 94 + 93 + 92);
});

test("series are stacked from the first up, and what is not known counts as zero", () => {
  expect(
    stacked([
      [1, null],
      [2, 5],
      [3, 1],
    ]),
  ).toEqual([
    [1, 0],
    [3, 5],
    [6, 6],
  ]);
});
