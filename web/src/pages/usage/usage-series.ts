/** Usage of several days as series of a chart and as rows of a table. Pure. */

import {
  chargedTokens,
  sumUsage,
  type UsageDimension,
  type UsageRecord,
  type UsageRow,
} from "../../../../src/gateway/usage.ts";

export interface UsageSeries {
  /** Empty for all others together. */
  readonly name: string;
  readonly values: readonly number[];
}

const SERIES = 6;
const DAY_MS = 86_400_000;

/** The days until today in UTC, oldest first. */
export function daysUntil(nowMs: number, count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) =>
    new Date(nowMs - (count - 1 - index) * DAY_MS).toISOString().slice(0, 10),
  );
}

/** The months of the days, as in 2026-11. */
export function monthsOf(days: readonly string[]): readonly string[] {
  return [...new Set(days.map((day) => day.slice(0, 7)))];
}

/** The six largest and the others, by tokens. */
export function usageSeries(
  records: readonly UsageRecord[],
  days: readonly string[],
  by: UsageDimension,
): readonly UsageSeries[] {
  const position = new Map(days.map((day, index) => [day, index]));
  const totals = totalsBy(records, days, by);
  const named = totals.slice(0, totals.length > SERIES ? SERIES - 1 : SERIES).map((row) => row[by]);
  const names = totals.length > named.length ? [...named, ""] : named;
  const values = new Map(names.map((name) => [name, days.map(() => 0)]));
  for (const { day, rows } of records) {
    const at = position.get(day);
    if (at === undefined) continue;
    for (const row of rows) {
      const list = values.get(named.includes(row[by]) ? row[by] : "");
      if (list !== undefined) list[at] = (list[at] ?? 0) + chargedTokens(row);
    }
  }
  return [...values].map(([name, list]) => ({ name, values: list }));
}

/** One row per value of the dimension, most tokens first. */
export function totalsBy(
  records: readonly UsageRecord[],
  days: readonly string[],
  by: UsageDimension,
): readonly UsageRow[] {
  const shown = new Set(days);
  const rows = records.filter(({ day }) => shown.has(day)).flatMap((record) => record.rows);
  return [...sumUsage(rows, [by])].sort(
    (a, b) => chargedTokens(b) - chargedTokens(a) || a[by].localeCompare(b[by]),
  );
}
