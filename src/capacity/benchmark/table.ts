/** Measured results in the ConfigMap `metalbridge-benchmarks`, by what was measured and the class of machines. Users may edit it, so its readers do not trust it. Pure. */

import { type BenchmarkResult, type BenchmarkSettings, benchmarkResultSchema } from "../../api/benchmark.ts";
import type { Runtime } from "../../api/fields/runtimes.ts";
import type { Model } from "../../api/model.ts";
import { sha256Hex } from "../../util/hash.ts";
import { parseJson } from "../../util/parse-json.ts";
import { noiseOf } from "./measurement.ts";

/** In the namespace of the controller. */
export const BENCHMARKS_NAME = "metalbridge-benchmarks";
/** More than any engine generates; a greater value is an error. */
const MAX_TOKENS_PER_SECOND = 100_000;

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

/** The inputs of a speed besides the machine and the build of the engine. */
export interface BenchmarkSubject {
  /** Content of the model: SHA-256 of its main file, else its key in model stores. */
  readonly content: string;
  readonly runtime: Runtime;
  readonly settings: BenchmarkSettings;
}

/** Undefined until the source of the Model is resolved. */
export function modelContentOf({ status }: Pick<Model, "status">): string | undefined {
  return status?.sha256 ?? status?.cacheKey;
}

/** Key `<hash>-<class>` in the ConfigMap, of the characters that a key may have. */
export function benchmarkKey({ content, runtime, settings }: BenchmarkSubject, deviceClass: string): string {
  const sorted = Object.entries(settings).sort(([a], [b]) => (a < b ? -1 : 1));
  return `${sha256Hex(JSON.stringify([content, runtime, sorted])).slice(0, 16)}-${deviceClass}`;
}

/** The measurement of a subject on a class of machines. */
export function resultFor(
  { results }: BenchmarkTable,
  subject: BenchmarkSubject,
  deviceClass: string,
): BenchmarkResult | undefined {
  return results.get(benchmarkKey(subject, deviceClass));
}
