/** `metalbridge describe`: everything that is known about one replica, service or host. */

import type { Command } from "commander";
import { type Cluster, withCluster } from "./cluster/cluster.ts";
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
import {
  type DescribeTarget,
  findDescribeTarget,
  parseDescribeTarget,
  type TargetName,
} from "./describe/target.ts";
import { writeOut } from "./program/output.ts";

type DescribeFlags = ClusterFlags & { readonly output: OutputFormat };

/** Options and action of the verb. */
export function configureDescribe(command: Command): void {
  addNamespacedFlags(command)
    .argument(
      "<name>",
      "a replica or a service; irep/NAME or isvc/NAME where it could be either; host NAME for a host",
      parseFirst,
    )
    .argument("[host]", "name of the Host, after the word host", parseName)
    .addOption(outputFlag())
    .action((first: string, second: string | undefined, flags: DescribeFlags) => {
      const target = parseDescribeTarget(second === undefined ? first : `${first}/${second}`);
      if (second !== undefined && target.kind === "either")
        command.error(`error: ${first} is no kind; describe takes host, isvc or irep before a name`);
      return describe(target, flags);
    });
}

function parseFirst(text: string): string {
  parseName(parseDescribeTarget(text).name);
  return text;
}

async function describe(name: TargetName, flags: DescribeFlags): Promise<void> {
  await withCluster("describe", flags, async (cluster) => {
    writeOut(`${await textOf(cluster, await findDescribeTarget(cluster, name), flags)}\n`);
  });
}

async function textOf(cluster: Cluster, target: DescribeTarget, flags: DescribeFlags): Promise<string> {
  switch (target.kind) {
    case "replica":
      return show(await readReplicaFacts(cluster, target.replica), flags, renderReplica);
    case "service":
      return show(await readServiceFacts(cluster, target.service), flags, renderServiceDetails);
    case "host":
      return show(await readHostFacts(cluster, target.host), flags, renderHost);
    default:
      return target satisfies never;
  }
}

function show<T>(facts: T, { output }: DescribeFlags, render: (facts: T, nowMs: number) => string): string {
  return output === "json" ? JSON.stringify(facts, undefined, 2) : render(facts, Date.now());
}
