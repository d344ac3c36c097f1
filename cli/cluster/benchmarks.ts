/** Measured speeds of the cluster. */
import { NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import {
  BENCHMARKS_NAME,
  type BenchmarkTable,
  NO_BENCHMARKS,
  readBenchmarks,
} from "../../src/capacity/benchmark/table.ts";
import { CONFIG_MAPS } from "../../src/kube/kinds.ts";
import type { Cluster } from "./cluster.ts";
import { explainAttempt } from "./failure.ts";

/** Undefined for a reader without the right to the ConfigMap; a cluster without benchmarks has an empty table. Throws other failures. */
export async function readBenchmarkTable({ client }: Cluster): Promise<BenchmarkTable | undefined> {
  const read = await client.get(CONFIG_MAPS, { name: BENCHMARKS_NAME, namespace: NAMESPACE_SYSTEM });
  if (read.ok) return readBenchmarks(read.value);
  if (read.error.kind === "notFound") return NO_BENCHMARKS;
  if (read.error.kind === "forbidden") return undefined;
  throw explainAttempt({ verb: "get", kind: CONFIG_MAPS, namespace: NAMESPACE_SYSTEM }, read.error);
}
