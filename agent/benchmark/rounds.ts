/** Decides which runs of a benchmark program are next. Pure and total. */
import type { BenchmarkPlan } from "../../src/api/benchmark.ts";
import { rateOf } from "../../src/capacity/benchmark/measurement.ts";
import type { BenchSamples, BenchTest } from "../../src/engines/contract/bench.ts";

/** One process of the program. Its first `discarded` runs are warm-ups. */
export interface Round {
  readonly test: BenchTest;
  readonly runs: number;
  readonly discarded: number;
}

/** A test whose time is known is omitted if it would end later than this. The program is killed after BENCH_DEADLINE_MS. */
export const BENCH_LIMIT_MS = 15 * 60_000;
/** Time for models that are slow to load; the first test has no estimate. */
export const BENCH_DEADLINE_MS = 2 * BENCH_LIMIT_MS;

/**
 * The next process; undefined if there is nothing left to measure. With `minSeconds` each test gets an equal share of the
 * time and at least one run: a test without an estimate starts with one run, and a second process makes as many as fit.
 */
export function nextRound(
  tests: readonly BenchTest[],
  plan: BenchmarkPlan,
  done: BenchSamples,
  elapsedMs: number,
): Round | undefined {
  const shareMs = plan.minSeconds === undefined ? undefined : (plan.minSeconds * 1_000) / tests.length;
  for (const test of tests) {
    const isFirst = samplesOf(test, done).length === 0;
    const estimate = estimateMs(test, plan, done);
    // The first runs of an unmeasured machine compile its kernels and raise its clock.
    const discarded = estimate === undefined ? plan.warmups : Math.min(1, plan.warmups);
    const runs = isFirst
      ? firstRuns(plan, estimate, { shareMs, leftMs: BENCH_LIMIT_MS - elapsedMs, discarded })
      : moreRuns(plan, estimate, { shareMs, found: samplesOf(test, done).length });
    if (runs > 0) return { test, runs, discarded };
  }
  return undefined;
}

function firstRuns(
  { runs }: BenchmarkPlan,
  estimate: Estimate | undefined,
  {
    shareMs,
    leftMs,
    discarded,
  }: { readonly shareMs: number | undefined; readonly leftMs: number; readonly discarded: number },
): number {
  if (estimate === undefined) return shareMs === undefined ? runs : 1;
  const inShare = shareMs === undefined ? runs : Math.max(1, runsIn(shareMs, estimate));
  return Math.min(runs, inShare, runsIn(leftMs, estimate) - discarded);
}

/** Only the single first run of a share is continued, once. */
function moreRuns(
  { runs }: BenchmarkPlan,
  estimate: Estimate | undefined,
  { shareMs, found }: { readonly shareMs: number | undefined; readonly found: number },
): number {
  if (found !== 1 || shareMs === undefined || estimate === undefined) return 0;
  return Math.min(runs - found, runsIn(shareMs - estimate.runMs, estimate));
}

interface Estimate {
  readonly runMs: number;
  readonly contextMs: number;
}

function runsIn(ms: number, { runMs, contextMs }: Estimate): number {
  return Math.floor((ms - contextMs) / runMs);
}

function samplesOf({ prompt, generation }: BenchTest, done: BenchSamples): readonly number[] {
  const series = generation?.series ?? prompt?.series;
  return (series && done[series]) ?? [];
}

/** From the speeds that are known: those of the test itself, or of the shorter test before it. */
function estimateMs(
  { prompt, generation, depth }: BenchTest,
  { tokens }: BenchmarkPlan,
  done: BenchSamples,
): Estimate | undefined {
  const promptRate = rateOf(done.prompt4096 ?? done.prompt512 ?? [])?.median;
  const rate = rateOf(done.generationAt4096 ?? done.generation ?? [])?.median;
  const promptMs = timeMs(prompt?.tokens ?? 0, promptRate);
  const generationMs = timeMs(generation === undefined ? 0 : tokens, rate);
  const contextMs = timeMs(depth, promptRate);
  if (promptMs === undefined || generationMs === undefined || contextMs === undefined) return undefined;
  return { runMs: promptMs + generationMs, contextMs };
}

function timeMs(tokens: number, rate: number | undefined): number | undefined {
  if (tokens === 0) return 0;
  return rate === undefined || rate <= 0 ? undefined : (tokens / rate) * 1_000;
}
