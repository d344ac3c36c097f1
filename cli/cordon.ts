/** `metalbridge cordon`: nothing new is placed on a host; what runs there stays. */

import type { Command } from "commander";
import { withCluster } from "./cluster/cluster.ts";
import { findHost } from "./cluster/find.ts";
import { addClusterFlags, type ClusterFlags, parseHostName } from "./cluster/flags.ts";
import { writeHostChange } from "./drain/patch.ts";
import { writeOut } from "./program/output.ts";

/** Options and action of the verb. */
export function configureCordon(command: Command): void {
  addClusterFlags(command).argument("<host>", "name of the Host", parseHostName).action(cordon);
}

async function cordon(name: string, flags: ClusterFlags): Promise<void> {
  await withCluster("cordon", flags, async (cluster) => {
    const { isChanged } = await writeHostChange(cluster, await findHost(cluster, name), {
      unschedulable: true,
    });
    writeOut(
      isChanged
        ? `host ${name} is cordoned: nothing new is placed there, what runs stays\n`
        : `host ${name} was cordoned already\n`,
    );
  });
}
