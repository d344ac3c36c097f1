/** Programs that measure an engine on an idle machine, without a service. */
import type { BENCHMARK_TOOLS, BenchmarkSettings } from "../../api/benchmark.ts";

/** The subject, as fields of a measurement. */
export type BenchSeries = "generation" | "generationAt4096" | "prompt512" | "prompt4096";

/** Tokens per second of each run, in order. */
export type BenchSamples = Readonly<Partial<Record<BenchSeries, readonly number[]>>>;

/** One test of a program: a prompt, generation, or both in each run. */
export interface BenchTest {
  readonly prompt?: { readonly series: BenchSeries; readonly tokens: number };
  /** Generates the tokens of the plan. */
  readonly generation?: { readonly series: BenchSeries };
  /** Tokens of context that are computed once, before the runs. */
  readonly depth: number;
}

export interface BenchProcess {
  readonly modelPath: string;
  readonly settings: BenchmarkSettings;
  readonly test: BenchTest;
  readonly tokens: number;
  readonly runs: number;
}

export interface BenchProgram {
  readonly tool: (typeof BENCHMARK_TOOLS)[number];
  /** In order of importance: if time is short, the last ones are omitted. */
  readonly tests: readonly BenchTest[];
  /** Number of runs before the first one that is printed. */
  readonly ownWarmups: number;
  readonly args: (process: BenchProcess) => readonly string[];
  /** All runs that the output has, of any test. The output may contain other lines. */
  readonly parse: (output: string) => BenchSamples;
}
