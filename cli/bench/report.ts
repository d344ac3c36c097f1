/** The metrics of a stage by the definitions of inference-perf (docs/measure-speed.md), as a table, Markdown or JSON. Pure. */
import { formatTable, type Row } from "../program/table.ts";
import type { StageRun } from "./measure.ts";
import type { StreamSample } from "./stream.ts";

export interface Percentiles {
  readonly p50: number;
  readonly p90: number;
  readonly p95: number;
  readonly p99: number;
}

/** Limits in milliseconds that a request must keep to count as good. */
export interface SloLimits {
  readonly ttft?: number;
  readonly tpot?: number;
  readonly e2e?: number;
}

/** Times in milliseconds, rates per second. Scripts read these names as JSON. */
export interface StageReport {
  /** Number of concurrent clients; absent with a rate. */
  readonly concurrency?: number;
  readonly ratePerSecond?: number;
  readonly requests: number;
  readonly failed: number;
  readonly durationSeconds: number;
  readonly requestsPerSecond: number;
  /** Tokens of all answers; 0 if the service generates nothing. */
  readonly tokensPerSecond: number;
  readonly inputTokensPerSecond: number;
  readonly totalTokensPerSecond: number;
  readonly latencyMs: Percentiles;
  /** These four are absent if answers do not stream. */
  readonly timeToFirstTokenMs?: Percentiles;
  readonly timePerOutputTokenMs?: Percentiles;
  readonly betweenTokensMs?: Percentiles;
  readonly normalizedTimePerOutputTokenMs?: Percentiles;
  /** Requests per second within the limits, and their share of all requests; absent without limits. */
  readonly goodputPerSecond?: number;
  readonly goodputShare?: number;
}

export function reportOf({ stage, wallMs, samples, failures }: StageRun, slo?: SloLimits): StageReport {
  const failed = [...failures.values()].reduce((sum, count) => sum + count, 0);
  const sum = (value: (sample: StreamSample) => number) =>
    samples.reduce((total, sample) => total + value(sample), 0);
  const perSecond = (count: number) => (wallMs > 0 ? round((count * 1_000) / wallMs) : 0);
  const times = (value: (sample: StreamSample) => readonly number[] | number | undefined) => {
    const all = samples.flatMap((sample) => value(sample) ?? []);
    return all.length === 0 ? undefined : percentiles(all);
  };
  const requests = samples.length + failed;
  const good = slo && samples.filter((sample) => isGood(sample, slo)).length;
  return {
    ...stage,
    requests,
    failed,
    durationSeconds: round(wallMs / 1_000),
    requestsPerSecond: perSecond(samples.length),
    tokensPerSecond: perSecond(sum(({ tokens }) => tokens)),
    inputTokensPerSecond: perSecond(sum(({ inputTokens }) => inputTokens)),
    totalTokensPerSecond: perSecond(sum(({ tokens, inputTokens }) => tokens + inputTokens)),
    latencyMs: percentiles(samples.map(({ totalMs }) => totalMs)),
    timeToFirstTokenMs: times(({ firstMs }) => firstMs),
    timePerOutputTokenMs: times(timePerOutputToken),
    betweenTokensMs: times(({ gapsMs }) => gapsMs),
    normalizedTimePerOutputTokenMs: times(({ totalMs, tokens }) =>
      tokens > 0 ? totalMs / tokens : undefined,
    ),
    goodputPerSecond: good === undefined ? undefined : perSecond(good),
    goodputShare: good === undefined || requests === 0 ? undefined : round(good / requests),
  };
}

/** Undefined for an answer of one token, and for one that does not stream. */
function timePerOutputToken({ totalMs, firstMs, tokens }: StreamSample): number | undefined {
  return firstMs === undefined || tokens < 2 ? undefined : (totalMs - firstMs) / (tokens - 1);
}

/** A request that has no such time keeps its limit. */
function isGood(sample: StreamSample, { ttft, tpot, e2e }: SloLimits): boolean {
  const keeps = (time: number | undefined, limit = Number.POSITIVE_INFINITY) => (time ?? 0) <= limit;
  return keeps(sample.firstMs, ttft) && keeps(timePerOutputToken(sample), tpot) && keeps(sample.totalMs, e2e);
}

/** By the nearest rank; 0 without values. */
export function percentiles(values: readonly number[]): Percentiles {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share: number) => round(sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0);
  return { p50: at(0.5), p90: at(0.9), p95: at(0.95), p99: at(0.99) };
}

const HEADER: Row = [
  "CLIENTS",
  "REQUESTS",
  "FAILED",
  "REQ/S",
  "TOKENS/S",
  "LATENCY",
  "FIRST TOKEN",
  "PER TOKEN",
  "BETWEEN",
  "GOOD/S",
];

/** The times are p50/p90/p99 in milliseconds. */
export function renderTable(stages: readonly StageReport[]): string {
  const columns = columnsOf(stages);
  return formatTable(
    columns(HEADER),
    stages.map((stage) => columns(rowOf(stage))),
  );
}

export function renderMarkdown(stages: readonly StageReport[]): string {
  const columns = columnsOf(stages);
  const header = columns(HEADER);
  const rows = [header.map((title) => title.toLowerCase()), header.map(() => "---")];
  return [...rows, ...stages.map((stage) => columns(rowOf(stage)))]
    .map((row) => `| ${row.join(" | ")} |`)
    .join("\n");
}

/** Without the column of the goodput if there are no limits. */
function columnsOf([first]: readonly StageReport[]): (row: Row) => Row {
  return (row) => (first?.goodputPerSecond === undefined ? row.slice(0, -1) : row);
}

function rowOf(stage: StageReport): Row {
  return [
    String(stage.concurrency ?? `${stage.ratePerSecond}/s`),
    String(stage.requests),
    String(stage.failed),
    String(stage.requestsPerSecond),
    stage.tokensPerSecond === 0 ? "-" : String(stage.tokensPerSecond),
    threeOf(stage.latencyMs),
    threeOf(stage.timeToFirstTokenMs),
    threeOf(stage.timePerOutputTokenMs),
    threeOf(stage.betweenTokensMs),
    `${stage.goodputPerSecond} (${Math.round((stage.goodputShare ?? 0) * 100)} %)`,
  ];
}

function threeOf(times: Percentiles | undefined): string {
  return times === undefined ? "-" : `${times.p50}/${times.p90}/${times.p99} ms`;
}

/** Three digits say all that such a figure can. */
function round(value: number): number {
  return value >= 100 ? Math.round(value) : Number(value.toPrecision(3));
}
