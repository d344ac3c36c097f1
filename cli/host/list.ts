/** `metalbridge host list`. */
import { HOSTS, INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import { withCluster } from "../cluster/cluster.ts";
import { listAll } from "../cluster/find.ts";
import type { ClusterFlags, Output } from "../cluster/flags.ts";
import { hostEntries, renderHosts } from "./table.ts";

export async function hostList(flags: ClusterFlags & { readonly output: Output }): Promise<void> {
  await withCluster("host", flags, async (cluster) => {
    const [hosts, replicas] = await Promise.all([
      listAll(cluster, HOSTS),
      listAll(cluster, INFERENCE_REPLICAS),
    ]);
    const entries = hostEntries(hosts, replicas);
    const text =
      flags.output === "json" ? JSON.stringify(entries, undefined, 2) : renderHosts(entries, Date.now());
    process.stdout.write(`${text}\n`);
  });
}
