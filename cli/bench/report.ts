/** The figures of a benchmark, as a table, Markdown or JSON. Pure. */
import { formatTable, type Row } from "../program/table.ts";
import type { LevelRun, RequestSample } from "./measure.ts";

export interface Percentiles {
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
}

/** Times in milliseconds, rates per second. */
export interface LevelReport {
  readonly concurrency: number;
  readonly requests: number;
  readonly failed: number;
  readonly requestsPerSecond: number;
  /** Total of all answers; 0 if the service generates nothing. */
  readonly tokensPerSecond: number;
  readonly latencyMs: Percentiles;
  /** Absent where answers do not stream. */
  readonly timeToFirstTokenMs?: Percentiles;
  readonly betweenTokensMs?: Percentiles;
}

export function reportOf({ concurrency, wallMs, samples, failures }: LevelRun): LevelReport {
  const failed = [...failures.values()].reduce((sum, count) => sum + count, 0);
  const first = samples.flatMap(({ firstMs }) => (firstMs === undefined ? [] : [firstMs]));
  const gaps = samples.flatMap(({ gapsMs }) => gapsMs);
  const tokens = samples.reduce((sum: number, sample: RequestSample) => sum + sample.tokens, 0);
  const perSecond = (count: number) => (wallMs > 0 ? round((count * 1_000) / wallMs) : 0);
  return {
    concurrency,
    requests: samples.length + failed,
    failed,
    requestsPerSecond: perSecond(samples.length),
    tokensPerSecond: perSecond(tokens),
    latencyMs: percentiles(samples.map(({ totalMs }) => totalMs)),
    timeToFirstTokenMs: first.length === 0 ? undefined : percentiles(first),
    betweenTokensMs: gaps.length === 0 ? undefined : percentiles(gaps),
  };
}

/** By the nearest rank; 0 of nothing. */
export function percentiles(values: readonly number[]): Percentiles {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share: number) => round(sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0);
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99) };
}

const HEADER: Row = [
  "CLIENTS",
  "REQUESTS",
  "FAILED",
  "REQ/S",
  "TOKENS/S",
  "LATENCY",
  "FIRST TOKEN",
  "BETWEEN",
];

/** The three times are p50/p95/p99 in milliseconds. */
export function renderTable(levels: readonly LevelReport[]): string {
  return formatTable(HEADER, levels.map(rowOf));
}

export function renderMarkdown(levels: readonly LevelReport[]): string {
  const rows = [HEADER.map((title) => title.toLowerCase()), HEADER.map(() => "---"), ...levels.map(rowOf)];
  return rows.map((row) => `| ${row.join(" | ")} |`).join("\n");
}

function rowOf(level: LevelReport): Row {
  return [
    String(level.concurrency),
    String(level.requests),
    String(level.failed),
    String(level.requestsPerSecond),
    level.tokensPerSecond === 0 ? "-" : String(level.tokensPerSecond),
    threeOf(level.latencyMs),
    threeOf(level.timeToFirstTokenMs),
    threeOf(level.betweenTokensMs),
  ];
}

function threeOf(times: Percentiles | undefined): string {
  return times === undefined ? "-" : `${times.p50}/${times.p95}/${times.p99} ms`;
}

/** Three digits say all that such a figure can. */
function round(value: number): number {
  return value >= 100 ? Math.round(value) : Number(value.toPrecision(3));
}
