/** `metalbridge cordon` and `metalbridge uncordon`: whether new replicas may be scheduled on a host. */

import type { Command } from "commander";
import { CORDON, type HostChange, UNCORDON } from "../src/api/host-change.ts";
import { HOSTS } from "../src/api/kinds.ts";
import { withCluster } from "./cluster/cluster.ts";
import { findObject } from "./cluster/find.ts";
import { addClusterFlags, type ClusterFlags, parseHostName } from "./cluster/flags.ts";
import { writeHostChange } from "./drain/patch.ts";
import { printLine } from "./program/output.ts";

/** Options and action of the verb. */
export function configureCordon(command: Command): void {
  configure(command, CORDON, (name, isChanged) =>
    isChanged
      ? `host ${name} is cordoned: no new replicas are scheduled on it, existing replicas keep running`
      : `host ${name} was already cordoned`,
  );
}

/** Options and action of the verb. */
export function configureUncordon(command: Command): void {
  configure(command, UNCORDON, (name, isChanged) =>
    isChanged ? `host ${name} takes new replicas again` : `host ${name} was neither cordoned nor drained`,
  );
}

function configure(
  command: Command,
  change: HostChange,
  describe: (name: string, isChanged: boolean) => string,
): void {
  addClusterFlags(command)
    .argument("<host>", "name of the Host", parseHostName)
    .action(async (name: string, flags: ClusterFlags) => {
      await withCluster(command.name(), flags, async (cluster) => {
        const host = await findObject(cluster, HOSTS, name);
        const { isChanged } = await writeHostChange(cluster, host, change);
        printLine(describe(name, isChanged));
      });
    });
}
