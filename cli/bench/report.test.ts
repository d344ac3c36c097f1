import { expect, test } from "vitest";
import { percentiles, renderMarkdown, renderTable, reportOf } from "./report.ts";

test("percentiles are by the nearest rank", () => {
  const values = Array.from({ length: 100 }, (_, index) => 100 - index);
  expect(percentiles(values)).toEqual({ p50: 50, p90: 90, p95: 95, p99: 99 });
  expect(percentiles([7])).toEqual({ p50: 7, p90: 7, p95: 7, p99: 7 });
  expect(percentiles([])).toEqual({ p50: 0, p90: 0, p95: 0, p99: 0 });
});

const run = {
  stage: { concurrency: 2 },
  wallMs: 2_000,
  samples: [
    { totalMs: 900, firstMs: 100, gapsMs: [20, 30], isCounted: true, inputTokens: 400, tokens: 30 },
    { totalMs: 1_000, firstMs: 120.4, gapsMs: [25], isCounted: true, inputTokens: 100, tokens: 20 },
  ],
  failures: new Map([["answered 503", 1]]),
};

test("rates count what was answered, failed requests are counted apart", () => {
  expect(reportOf(run)).toEqual({
    concurrency: 2,
    requests: 3,
    failed: 1,
    durationSeconds: 2,
    requestsPerSecond: 1,
    tokensPerSecond: 25,
    inputTokensPerSecond: 250,
    totalTokensPerSecond: 275,
    latencyMs: { p50: 900, p90: 1_000, p95: 1_000, p99: 1_000 },
    timeToFirstTokenMs: { p50: 100, p90: 120, p95: 120, p99: 120 },
    // (900 − 100) ÷ 29 and (1000 − 120.4) ÷ 19.
    timePerOutputTokenMs: { p50: 27.6, p90: 46.3, p95: 46.3, p99: 46.3 },
    betweenTokensMs: { p50: 25, p90: 30, p95: 30, p99: 30 },
    // 900 ÷ 30 and 1000 ÷ 20.
    normalizedTimePerOutputTokenMs: { p50: 30, p90: 50, p95: 50, p99: 50 },
  });
});

test.each([
  [{ ttft: 110 }, 0.5],
  [{ tpot: 50 }, 1],
  [{ tpot: 20 }, 0],
  [{ ttft: 110, tpot: 50, e2e: 900 }, 0.5],
])("with limits %j goodput is %d requests per second", (slo, goodput) => {
  const report = reportOf(run, slo);
  expect(report.goodputPerSecond).toBe(goodput);
  // The failed request counts too.
  expect(report.goodputShare).toBeCloseTo((goodput * 2) / 3, 2);
  const [header, row] = renderTable([report]).split("\n");
  expect(header).toMatch(/GOOD\/S$/);
  expect(row).toMatch(/ %\)$/);
});

test("embeddings have neither tokens nor a first one", () => {
  const report = reportOf({
    stage: { ratePerSecond: 0.5 },
    wallMs: 100,
    samples: [{ totalMs: 50, gapsMs: [], isCounted: true, inputTokens: 0, tokens: 0 }],
    failures: new Map(),
  });
  expect(renderTable([report]).split("\n")).toEqual([
    "CLIENTS  REQUESTS  FAILED  REQ/S  TOKENS/S  LATENCY      FIRST TOKEN  PER TOKEN  BETWEEN",
    "0.5/s    1         0       10     -         50/50/50 ms  -            -          -",
  ]);
  expect(renderMarkdown([report]).split("\n").at(-1)).toBe(
    "| 0.5/s | 1 | 0 | 10 | - | 50/50/50 ms | - | - | - |",
  );
});
