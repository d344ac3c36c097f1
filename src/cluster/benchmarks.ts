/** Reads the measured speeds from their ConfigMap, once for each change. */

import { NAMESPACE_SYSTEM } from "../api/group.ts";
import { keyOf } from "../api/names.ts";
import {
  BENCHMARKS_NAME,
  type BenchmarkTable,
  NO_BENCHMARKS,
  readBenchmarks,
} from "../capacity/benchmark/table.ts";
import type { ConfigMap } from "../kube/objects.ts";
import type { Reflector } from "../kube/types.ts";

export const BENCHMARKS_KEY = keyOf({ namespace: NAMESPACE_SYSTEM, name: BENCHMARKS_NAME });

/** The watch delivers a new object with each change. */
const tables = new WeakMap<ConfigMap, BenchmarkTable>();

export function benchmarksIn(watch: Pick<Reflector<ConfigMap>, "get">): BenchmarkTable {
  const map = watch.get(BENCHMARKS_KEY);
  if (map === undefined) return NO_BENCHMARKS;
  const table = tables.get(map) ?? readBenchmarks(map);
  tables.set(map, table);
  return table;
}
