/** `metalbridge drain`: moves all replicas off a host, and follows the drain until the host is empty. */

import type { Command } from "commander";
import { DRAIN } from "../src/api/host-change.ts";
import { HOSTS } from "../src/api/kinds.ts";
import { withCluster } from "./cluster/cluster.ts";
import { findObject } from "./cluster/find.ts";
import {
  addClusterFlags,
  booleanOption,
  type ClusterFlags,
  parseHostName,
  timeoutOption,
} from "./cluster/flags.ts";
import { describeCancel, followDrain } from "./drain/follow.ts";
import { writeHostChange } from "./drain/patch.ts";
import { printLine } from "./program/output.ts";

interface DrainFlags extends ClusterFlags {
  readonly timeout: number;
  readonly wait: boolean;
}

/** Options and action of the verb. */
export function configureDrain(command: Command): void {
  addClusterFlags(command)
    .argument("<host>", "name of the Host", parseHostName)
    .addOption(timeoutOption("stop waiting after this time (the drain continues)", "10m"))
    .addOption(booleanOption("--wait", "wait until the host is empty"))
    .action(drain);
}

async function drain(name: string, flags: DrainFlags): Promise<void> {
  await withCluster("drain", flags, async (cluster) => {
    const found = await findObject(cluster, HOSTS, name);
    const { host, isChanged } = await writeHostChange(cluster, found, DRAIN);
    printLine(
      isChanged
        ? `host ${name} is being drained: its replicas move to other hosts, no new replicas are scheduled on it`
        : `host ${name} is already being drained`,
    );
    if (flags.wait && (await followDrain(cluster, host, flags.timeout)))
      printLine(`host ${name} is drained; to schedule replicas on it again: metalbridge uncordon ${name}`);
    if (!flags.wait) printLine(describeCancel(name));
  });
}
