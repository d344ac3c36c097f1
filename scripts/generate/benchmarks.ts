/** Part of docs/benchmarks.md: the results of the committed baseline. */
import { existsSync, readFileSync } from "node:fs";
import type { BenchReport, ReportLine } from "../bench/report.ts";
import { escapeCell, markdownTable } from "./markdown.ts";

const BASELINE = new URL("../bench/baseline.json", import.meta.url);

/** Machine and table; a sentence while there is no baseline. */
export function benchmarkLines(): string[] {
  return resultTable(readBaseline());
}

function readBaseline(): BenchReport | undefined {
  return existsSync(BASELINE) ? (JSON.parse(readFileSync(BASELINE, "utf8")) as BenchReport) : undefined;
}

function resultTable(report: BenchReport | undefined): string[] {
  if (report === undefined) return ["No result is committed yet."];
  const { cpu, cores, memoryBytes, node } = report.machine;
  return [
    `${report.at.slice(0, 10)}, ${cpu}, ${cores} cores, ${Math.round(memoryBytes / 1024 ** 3)} GiB, Node ${node}.`,
    "",
    ...markdownTable(["scenario", "n", "p50", "p99", "max", "unit", "target"], report.lines.map(row)),
  ];
}

function row({ name, unit, summary: { n, p50, p99, max }, targets }: ReportLine) {
  const results = targets.map(
    ({ statistic, limit, isMet }) => `${isMet ? "met" : "missed"}: ${statistic} ≤ ${limit}`,
  );
  return [escapeCell(name), n, short(p50), short(p99), short(max), unit, results.join("; ")];
}

/** JSON has no NaN: what was not measured is null there. */
function short(value: number | null): string {
  if (value === null) return "–";
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}
