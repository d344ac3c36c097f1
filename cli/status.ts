/** `metalbridge status`: shows hosts, services and replicas on one screen. */

import type { Command } from "commander";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES } from "../src/api/kinds.ts";
import { withCluster } from "./cluster/cluster.ts";
import {
  addClusterFlags,
  type ClusterFlags,
  type OutputFormat,
  outputFlag,
  parseName,
} from "./cluster/flags.ts";
import { readLeadershipNote } from "./cluster/leadership.ts";
import { listVisible, missingOf } from "./cluster/visible.ts";
import { printResult } from "./program/output.ts";
import { overviewOf } from "./status/overview.ts";
import { renderOverview } from "./status/render.ts";

type Flags = ClusterFlags & { readonly output: OutputFormat };

/** Options and action of the verb. */
export function configureStatus(command: Command): void {
  addClusterFlags(command)
    .option("-n, --namespace <name>", "show services and replicas of one namespace only", parseName)
    .addOption(outputFlag())
    .action(status);
}

async function status({ namespace, output, ...flags }: Flags): Promise<void> {
  await withCluster("status", flags, async (cluster) => {
    const [hosts, services, replicas, controller] = await Promise.all([
      listVisible(cluster, HOSTS),
      listVisible(cluster, INFERENCE_SERVICES, namespace),
      listVisible(cluster, INFERENCE_REPLICAS, namespace),
      readLeadershipNote(cluster, Date.now()),
    ]);
    const missing = missingOf(hosts, services, replicas);
    const all = overviewOf(hosts.items ?? [], services.items ?? [], replicas.items ?? []);
    const overview = {
      controller,
      missing,
      ...all,
      hosts: hosts.items && all.hosts,
    };
    const color = process.stdout.isTTY === true;
    const width = color ? process.stdout.columns : undefined;
    printResult(output, overview, () => renderOverview(overview, { color, width }));
  });
}
