/** Usage of the gateway, grouped and rendered. Pure. */

import {
  chargedTokens,
  DIMENSIONS,
  renderCsv,
  sumUsage,
  type UsageCounts,
  type UsageDimension,
  type UsageRecord,
} from "../../src/gateway/usage.ts";
import { compareText } from "../../src/util/text.ts";
import { formatTable } from "../program/table.ts";

export const GROUPINGS = ["day", ...DIMENSIONS] as const;
export type Grouping = (typeof GROUPINGS)[number];

/** The groupings that were requested, and sums. */
export type UsageLine = Partial<Readonly<Record<Grouping, string>>> & UsageCounts;

const COLUMNS = [
  ["requests", "REQUESTS"],
  ["tokensIn", "INPUT"],
  ["tokensCached", "CACHED"],
  ["tokensOut", "OUTPUT"],
  ["estimatedRequests", "ESTIMATED"],
] as const;

/** Days in order; within a day, or without days, most tokens first. */
export function groupUsage(records: readonly UsageRecord[], by: readonly Grouping[]): readonly UsageLine[] {
  const dimensions = by.filter((name): name is UsageDimension => name !== "day");
  const days = new Map<string, UsageRecord["rows"][number][]>();
  for (const { day, rows } of records) {
    const key = by.includes("day") ? day : "";
    days.set(key, [...(days.get(key) ?? []), ...rows]);
  }
  return [...days]
    .sort(([a], [b]) => compareText(a, b))
    .flatMap(([day, rows]) =>
      [...sumUsage(rows, dimensions)]
        .sort(
          (a, b) => chargedTokens(b) - chargedTokens(a) || compareText(JSON.stringify(a), JSON.stringify(b)),
        )
        .map((row) => lineOf({ ...row, day }, by)),
    );
}

export function renderUsageTable(lines: readonly UsageLine[], by: readonly Grouping[]): string {
  const titles = [...by.map((name) => name.toUpperCase()), ...COLUMNS.map(([, title]) => title)];
  return formatTable(titles, cellsOf(lines, by));
}

/** Comma-separated values with a header. */
export function renderUsageLines(lines: readonly UsageLine[], by: readonly Grouping[]): string {
  return renderCsv([[...by, ...COLUMNS.map(([name]) => name)], ...cellsOf(lines, by)]);
}

function cellsOf(lines: readonly UsageLine[], by: readonly Grouping[]): readonly (readonly string[])[] {
  return lines.map((line) => [
    ...by.map((name) => line[name] ?? ""),
    ...COLUMNS.map(([name]) => String(line[name])),
  ]);
}

function lineOf(row: UsageLine, by: readonly Grouping[]): UsageLine {
  const { requests, tokensIn, tokensCached, tokensOut, estimatedRequests } = row;
  return {
    ...Object.fromEntries(by.map((name) => [name, row[name] ?? ""])),
    ...{ requests, tokensIn, tokensCached, tokensOut, estimatedRequests },
  };
}
