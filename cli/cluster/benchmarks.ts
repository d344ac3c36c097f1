/** Measured speeds of the cluster. */
import { NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import { BENCHMARKS_NAME, type BenchmarkTable, readBenchmarks } from "../../src/capacity/benchmark/table.ts";
import { CONFIG_MAPS } from "../../src/kube/kinds.ts";
import type { Cluster } from "./cluster.ts";

/** Empty if nothing was measured, or for a reader without the right to the ConfigMap: estimates then stay as they are. */
export async function readBenchmarkTable({ client }: Cluster): Promise<BenchmarkTable> {
  const result = await client.get(CONFIG_MAPS, { name: BENCHMARKS_NAME, namespace: NAMESPACE_SYSTEM });
  return readBenchmarks(result.ok ? result.value : undefined);
}
