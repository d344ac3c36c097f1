/** Results of benchmarks: from a measurement to an entry of the ConfigMap, and until when an entry is valid. Pure. */

import { type BenchmarkResult, type Measurement, measurementSchema } from "../../../src/api/benchmark.ts";
import { renderMeasurement } from "../../../src/capacity/benchmark/measurement.ts";
import { identityOfModel } from "../../../src/capacity/benchmark/subject.ts";
import { type BenchmarkTable, readBenchmarks } from "../../../src/capacity/benchmark/table.ts";
import type { JsonPatchOp } from "../../../src/kube/types.ts";
import { defined } from "../../../src/util/defined.ts";
import { isoSeconds } from "../../../src/util/iso-seconds.ts";
import type { Target } from "./targets.ts";

/** Clocks of machines differ by less than this. */
const CLOCK_SKEW_MS = 5 * 60_000;

/** Adds the identity to a measurement. Undefined if the machine reports nonsense. */
export function checkedResult(
  { key, deviceClass, model, subject }: Target,
  machine: string,
  reported: Measurement,
  nowMs: number,
): BenchmarkResult | undefined {
  // Rounded, as Jobs report it.
  const measured = measurementSchema.safeParse(JSON.parse(renderMeasurement(reported))).data;
  if (measured === undefined) return undefined;
  const result = defined<BenchmarkResult>({
    ...measured,
    measuredAt: isoSeconds(Math.min(Date.parse(measured.measuredAt) || nowMs, nowMs)),
    ...identityOfModel(model),
    deviceClass,
    machine,
    runtime: subject.runtime,
    settings: subject.settings,
  });
  return readBenchmarks({ data: { [key]: JSON.stringify(result) } }).results.get(key);
}

/**
 * Time until the result has to be measured again; not positive if that is now, because it is too old or no machine of the class runs
 * its build. Without a target the builds are unknown.
 */
export function validForMs(
  { build, measuredAt }: BenchmarkResult,
  builds: ReadonlySet<string> | undefined,
  maxAgeMs: number,
  nowMs: number,
): number {
  if (builds?.has(build) === false) return 0;
  return maxAgeMs - Math.max(0, nowMs - Date.parse(measuredAt));
}

/** The result, measured now if its time is in the future: with such a time it would never expire. */
export function withoutFuture(result: BenchmarkResult, nowMs: number): BenchmarkResult {
  const isFuture = Date.parse(result.measuredAt) > nowMs + CLOCK_SKEW_MS;
  return isFuture ? { ...result, measuredAt: isoSeconds(nowMs) } : result;
}

/** An object may have 1 MiB; the rest is for its metadata. */
const TABLE_LENGTH_MAX = 900_000;
/** More than a result has with a long source and the most samples. */
const RESULT_LENGTH = 4_000;

/** Number of results of further targets that fit next to those of the targets. Entries without a target make room. */
export function roomIn({ results }: BenchmarkTable, targets: ReadonlyMap<string, unknown>): number {
  const kept = [...results].filter(([key]) => targets.has(key));
  const length = kept.reduce((sum, [key, result]) => sum + lengthOf(key, JSON.stringify(result)), 0);
  return Math.floor((TABLE_LENGTH_MAX - length) / RESULT_LENGTH);
}

export interface TableEdits {
  readonly operations: readonly JsonPatchOp[];
  /** Entries that are removed because the ConfigMap is full. */
  readonly dropped: readonly string[];
}

/** Changes only the given keys. `data` is the current content of the ConfigMap. */
export function editsOf(
  data: Readonly<Record<string, string>>,
  store: ReadonlyMap<string, BenchmarkResult>,
  remove: readonly string[],
  isTarget: (key: string) => boolean,
): TableEdits {
  const texts = [...store].map(([key, result]) => [key, JSON.stringify(result)] as const);
  const after = new Map(Object.entries(data));
  for (const key of remove) after.delete(key);
  for (const [key, text] of texts) after.set(key, text);
  const dropped = overflowOf(after, isTarget);
  const gone = new Set([...remove, ...dropped].filter((key) => key in data));
  const changed = texts.filter(([key, text]) => data[key] !== text && !dropped.includes(key));
  return {
    operations: [
      ...[...gone].map((key) => ({ op: "remove" as const, path: `/data/${key}` })),
      ...changed.map(([key, value]) => ({ op: "add" as const, path: `/data/${key}`, value })),
    ],
    dropped,
  };
}

/** The entries beyond the limit: first those that cannot be read, then those without a target, the oldest first. */
function overflowOf(entries: ReadonlyMap<string, string>, isTarget: (key: string) => boolean): string[] {
  let length = [...entries].reduce((sum, [key, text]) => sum + lengthOf(key, text), 0);
  if (length <= TABLE_LENGTH_MAX) return [];
  const { results } = readBenchmarks({ data: Object.fromEntries(entries) });
  const measuredMs = (key: string) => Date.parse(results.get(key)?.measuredAt ?? "") || 0;
  const rank = (key: string) => (results.has(key) && isTarget(key) ? 1 : 0);
  const dropped: string[] = [];
  const order = [...entries.keys()].sort((a, b) => rank(a) - rank(b) || measuredMs(a) - measuredMs(b));
  for (const key of order) {
    if (length <= TABLE_LENGTH_MAX) break;
    length -= lengthOf(key, entries.get(key) ?? "");
    dropped.push(key);
  }
  return dropped;
}

function lengthOf(key: string, text: string): number {
  return key.length + new TextEncoder().encode(text).length;
}
