/** `metalbridge drain`: moves what runs on a host elsewhere, and follows it until nothing is left there. */

import type { Command } from "commander";
import { withCluster } from "./cluster/cluster.ts";
import { findHost } from "./cluster/find.ts";
import {
  addClusterFlags,
  booleanOption,
  type ClusterFlags,
  parseDuration,
  parseHostName,
} from "./cluster/flags.ts";
import { announceDrain, describeCancel, followDrain } from "./drain/follow.ts";
import { writeHostChange } from "./drain/patch.ts";

interface DrainFlags extends ClusterFlags {
  readonly timeout: number;
  readonly wait: boolean;
}

const TIMEOUT_MS = 600_000;

/** Options and action of the verb. */
export function configureDrain(command: Command): void {
  addClusterFlags(command)
    .argument("<host>", "name of the Host", parseHostName)
    .option(
      "--timeout <time>",
      "stop following after this time, such as 90s or 10m (default: 10m); 0: never. The drain continues",
      parseDuration,
    )
    .addOption(booleanOption("--wait", "follow until nothing is left on the host"))
    .action((name: string, flags: Partial<DrainFlags>) =>
      drain(name, { ...flags, timeout: flags.timeout ?? TIMEOUT_MS, wait: flags.wait ?? true }),
    );
}

async function drain(name: string, flags: DrainFlags): Promise<void> {
  await withCluster("drain", flags, async (cluster) => {
    const { host, isChanged } = await writeHostChange(cluster, await findHost(cluster, name), {
      drain: true,
    });
    announceDrain(
      isChanged
        ? `host ${name} is being drained: its replicas move elsewhere, nothing new is placed there`
        : `host ${name} was being drained already`,
    );
    if (flags.wait && (await followDrain(cluster, host, flags.timeout)))
      announceDrain(`host ${name} is drained; it takes nothing new until: metalbridge uncordon ${name}`);
    if (!flags.wait) announceDrain(describeCancel(name));
  });
}
