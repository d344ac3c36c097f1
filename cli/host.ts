/** `metalbridge host`: the machines of a farm, and marking one as lost. */
import type { Command } from "commander";
import { HOSTS, INFERENCE_REPLICAS } from "../src/api/kinds.ts";
import { withCluster } from "./cluster/cluster.ts";
import { listAll } from "./cluster/find.ts";
import {
  addClusterFlags,
  type ClusterFlags,
  type Output,
  outputFlag,
  parseHostName,
} from "./cluster/flags.ts";
import { hostLost } from "./host/lost.ts";
import { hostEntries, renderHosts } from "./host/table.ts";

/** Subcommands, options and actions of the verb. */
export function configureHost(command: Command): void {
  addClusterFlags(command.command("list"))
    .description("list the hosts: state, replicas, memory, machine")
    .addOption(outputFlag())
    .action(hostList);
  addClusterFlags(command.command("lost"))
    .description("mark a host as lost for good: its replicas are rescheduled at once")
    .argument("<host>", "name of the Host", parseHostName)
    .option("--yes", "do not ask")
    .action(hostLost);
}

async function hostList(flags: ClusterFlags & { readonly output: Output }): Promise<void> {
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
