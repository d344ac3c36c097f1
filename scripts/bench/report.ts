/** The table and the JSON of a bench run, held against the last committed result. */
import { type SampleSummary, type ScenarioResult, type Statistic, summaryOf } from "./beds/measurement.ts";

export interface ReportLine {
  readonly name: string;
  readonly unit: string;
  readonly summary: SampleSummary;
  readonly targets: readonly Target[];
}

interface Target {
  readonly statistic: Statistic;
  readonly limit: number;
  readonly isMet: boolean;
}

export interface BenchReport {
  readonly at: string;
  readonly machine: {
    readonly cpu: string;
    readonly cores: number;
    readonly memoryBytes: number;
    readonly node: string;
  };
  readonly lines: readonly ReportLine[];
}

export function reportLine({ name, unit, samples, limits }: ScenarioResult): ReportLine {
  const summary = summaryOf(samples);
  const targets = (Object.entries(limits) as [Statistic, number][]).map(([statistic, limit]) => ({
    statistic,
    limit,
    isMet: summary[statistic] <= limit,
  }));
  return { name, unit, summary, targets };
}

/** The newer lines in the place of the older ones of the same name, or after all of them. */
export function mergeReports(older: BenchReport, newer: BenchReport): BenchReport {
  const kept = older.lines.map((line) => newer.lines.find(({ name }) => name === line.name) ?? line);
  const known = new Set(kept.map(({ name }) => name));
  return { ...newer, lines: [...kept, ...newer.lines.filter(({ name }) => !known.has(name))] };
}

/** Columns: the summary, targets met or missed, and the ratio of this p50 to the committed one. */
export function renderBenchReport(report: BenchReport, baseline: BenchReport | undefined): string {
  const rows = report.lines.map((line) => {
    const { n, p50, p99, max } = line.summary;
    const before = baseline?.lines.find(({ name }) => name === line.name)?.summary.p50;
    const ratio = before === undefined || before === 0 ? "–" : `${(p50 / before).toFixed(2)}×`;
    return [
      line.name,
      String(n),
      number(p50),
      number(p99),
      number(max),
      line.unit,
      line.targets.map(targetText).join(", "),
      ratio,
    ];
  });
  const all = [["scenario", "n", "p50", "p99", "max", "unit", "target", "p50 / committed"], ...rows];
  const widths = all[0]?.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0))) ?? [];
  return all
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

function targetText({ statistic, limit, isMet }: Target): string {
  return `${isMet ? "✓" : "✗"} ${statistic} ≤ ${limit}`;
}

function number(value: number): string {
  if (Number.isNaN(value)) return "–";
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}
