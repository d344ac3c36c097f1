/** `metalbridge describe`: shows the details of one replica, service or host. */

import type { Command } from "commander";
import { withCluster } from "./cluster/cluster.ts";
import {
  addNamespacedFlags,
  type ClusterFlags,
  type OutputFormat,
  outputFlag,
  parseName,
} from "./cluster/flags.ts";
import { renderHost } from "./describe/host.ts";
import { readHostFacts, readReplicaFacts, readServiceFacts } from "./describe/read.ts";
import { renderReplica } from "./describe/replica.ts";
import { renderServiceDetails } from "./describe/service.ts";
import { findDescribeTarget, parseDescribeTarget, type TargetName } from "./describe/target.ts";
import { printResult } from "./program/output.ts";

type DescribeFlags = ClusterFlags & { readonly output: OutputFormat };

/** Options and action of the verb. */
export function configureDescribe(command: Command): void {
  addNamespacedFlags(command)
    .argument(
      "<object>",
      "name of a replica or a service; use irep/NAME or isvc/NAME if the name is ambiguous, and host NAME for a host",
      parseFirst,
    )
    .argument("[host]", "name of the Host, after the word host", parseName)
    .addOption(outputFlag())
    .action((first: string, second: string | undefined, flags: DescribeFlags) => {
      const target = parseDescribeTarget(second === undefined ? first : `${first}/${second}`);
      if (second !== undefined && target.kind === "either")
        command.error(`error: unknown kind ${first}: use host, isvc or irep`);
      return describe(target, flags);
    });
}

function parseFirst(text: string): string {
  parseName(parseDescribeTarget(text).name);
  return text;
}

async function describe(name: TargetName, flags: DescribeFlags): Promise<void> {
  await withCluster("describe", flags, async (cluster) => {
    const show = <T>(facts: T, render: (facts: T, nowMs: number) => string) =>
      printResult(flags.output, facts, () => render(facts, Date.now()));
    const target = await findDescribeTarget(cluster, name);
    switch (target.kind) {
      case "replica":
        return show(await readReplicaFacts(cluster, target.replica), renderReplica);
      case "service":
        return show(await readServiceFacts(cluster, target.service), renderServiceDetails);
      case "host":
        return show(await readHostFacts(cluster, target.host), renderHost);
      default:
        return target satisfies never;
    }
  });
}
