/** Measured results in the ConfigMap `metalbridge-benchmarks`. Users may edit it, so its readers do not trust it. Pure. */

import { type BenchmarkResult, benchmarkResultSchema, type Measurement } from "../../api/benchmark.ts";
import { parseJson } from "../../util/parse-json.ts";
import { type BenchmarkSubject, benchmarkKey } from "./key.ts";

/** In the namespace of the controller. */
export const BENCHMARKS_NAME = "metalbridge-benchmarks";
/** More than any engine generates; a greater figure is an error. */
const MAX_TOKENS_PER_SECOND = 100_000;

/** Runs that differ by more than their median say what else ran on the machine. An estimate is better than such a figure. */
const SPREAD_MAX = 1;

export interface BenchmarkTable {
  readonly results: ReadonlyMap<string, BenchmarkResult>;
  /** Entries that cannot be used, each with the reason. */
  readonly dropped: readonly { readonly key: string; readonly why: string }[];
}

export const NO_BENCHMARKS: BenchmarkTable = { results: new Map(), dropped: [] };

export function readBenchmarks(
  map: { readonly data?: Readonly<Record<string, string>> } | undefined,
): BenchmarkTable {
  const results = new Map<string, BenchmarkResult>();
  const dropped: { key: string; why: string }[] = [];
  for (const [key, text] of Object.entries(map?.data ?? {})) {
    const read = readResult(key, text);
    if (typeof read === "string") dropped.push({ key, why: read });
    else results.set(key, read);
  }
  return { results, dropped };
}

/** The result, or the reason why it cannot be used. */
function readResult(key: string, text: string): BenchmarkResult | string {
  const value = parseJson(text);
  if (value === undefined) return "is not JSON";
  const parsed = benchmarkResultSchema.safeParse(value);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    return `${issue?.path.join(".") || "value"}: ${issue?.message ?? "invalid"}`;
  }
  const { deviceClass, generation } = parsed.data;
  if (!key.endsWith(`-${deviceClass}`))
    return `is of device class ${deviceClass}, which its key does not end with`;
  if (!(generation.median > 0) || generation.median > MAX_TOKENS_PER_SECOND)
    return `${generation.median} tokens per second is no valid speed`;
  return noiseOf(parsed.data) ?? parsed.data;
}

/** Why the runs of a measurement are no figure; undefined if they are one. */
export function noiseOf({ generation: { spread } }: Pick<Measurement, "generation">): string | undefined {
  if (spread <= SPREAD_MAX) return undefined;
  return `its runs differ by ${Math.round(spread * 100)}% of their median, and by at most ${SPREAD_MAX * 100}% in a valid measurement`;
}

/** The measurement of a subject on a class of machines. */
export function resultFor(
  { results }: BenchmarkTable,
  subject: BenchmarkSubject,
  deviceClass: string,
): BenchmarkResult | undefined {
  return results.get(benchmarkKey(subject, deviceClass));
}
