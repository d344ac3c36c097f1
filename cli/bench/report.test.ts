import { expect, test } from "vitest";
import { percentiles, renderMarkdown, renderTable, reportOf } from "./report.ts";

test("percentiles are by the nearest rank", () => {
  const values = Array.from({ length: 100 }, (_, index) => 100 - index);
  expect(percentiles(values)).toEqual({ p50: 50, p95: 95, p99: 99 });
  expect(percentiles([7])).toEqual({ p50: 7, p95: 7, p99: 7 });
  expect(percentiles([])).toEqual({ p50: 0, p95: 0, p99: 0 });
});

const run = {
  concurrency: 2,
  wallMs: 2_000,
  samples: [
    { totalMs: 900, firstMs: 100, gapsMs: [20, 30], tokens: 30 },
    { totalMs: 1_000, firstMs: 120.4, gapsMs: [25], tokens: 20 },
  ],
  failures: new Map([["answered 503", 1]]),
};

test("rates count what was answered, failed requests are counted apart", () => {
  expect(reportOf(run)).toEqual({
    concurrency: 2,
    requests: 3,
    failed: 1,
    requestsPerSecond: 1,
    tokensPerSecond: 25,
    latencyMs: { p50: 900, p95: 1_000, p99: 1_000 },
    timeToFirstTokenMs: { p50: 100, p95: 120, p99: 120 },
    betweenTokensMs: { p50: 25, p95: 30, p99: 30 },
  });
});

test("embeddings have neither tokens nor a first one", () => {
  const report = reportOf({
    concurrency: 1,
    wallMs: 100,
    samples: [{ totalMs: 50, gapsMs: [], tokens: 0 }],
    failures: new Map(),
  });
  expect(renderTable([report]).split("\n")).toEqual([
    "CLIENTS  REQUESTS  FAILED  REQ/S  TOKENS/S  LATENCY      FIRST TOKEN  BETWEEN",
    "1        1         0       10     -         50/50/50 ms  -            -",
  ]);
  expect(renderMarkdown([report]).split("\n").at(-1)).toBe("| 1 | 1 | 0 | 10 | - | 50/50/50 ms | - | - |");
});
