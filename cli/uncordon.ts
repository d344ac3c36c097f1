/** `metalbridge uncordon`: takes a cordon and a drain back. */

import type { Command } from "commander";
import { withCluster } from "./cluster/cluster.ts";
import { findHost } from "./cluster/find.ts";
import { addClusterFlags, type ClusterFlags, parseHostName } from "./cluster/flags.ts";
import { writeHostChange } from "./drain/patch.ts";
import { writeOut } from "./program/output.ts";

/** Options and action of the verb. */
export function configureUncordon(command: Command): void {
  addClusterFlags(command).argument("<host>", "name of the Host", parseHostName).action(uncordon);
}

async function uncordon(name: string, flags: ClusterFlags): Promise<void> {
  await withCluster("uncordon", flags, async (cluster) => {
    const change = { unschedulable: false, drain: false };
    const { isChanged } = await writeHostChange(cluster, await findHost(cluster, name), change);
    writeOut(
      isChanged
        ? `host ${name} takes new replicas again\n`
        : `host ${name} was neither cordoned nor drained\n`,
    );
  });
}
