/** `metalbridge describe`: everything that is known about one replica or one service. */

import type { Command } from "commander";
import { withCluster } from "./cluster/cluster.ts";
import {
  addNamespacedFlags,
  type ClusterFlags,
  type Output,
  outputFlag,
  parseName,
} from "./cluster/flags.ts";
import { readReplicaFacts, readServiceFacts } from "./describe/read.ts";
import { renderReplica } from "./describe/replica.ts";
import { renderService } from "./describe/service.ts";
import { findTarget, readTarget, type TargetName } from "./describe/target.ts";
import { writeOut } from "./program/output.ts";

type DescribeFlags = ClusterFlags & { readonly output: Output };

/** Options and action of the verb. */
export function configureDescribe(command: Command): void {
  addNamespacedFlags(command)
    .argument("<name>", "a replica or a service; irep/NAME or isvc/NAME where it could be either", (text) => {
      const target = readTarget(text);
      return { ...target, name: parseName(target.name) };
    })
    .addOption(outputFlag())
    .action(describe);
}

async function describe(name: TargetName, flags: DescribeFlags): Promise<void> {
  await withCluster("describe", flags, async (cluster) => {
    const target = await findTarget(cluster, name);
    const text =
      target.kind === "replica"
        ? show(await readReplicaFacts(cluster, target.replica), flags, renderReplica)
        : show(await readServiceFacts(cluster, target.service), flags, renderService);
    writeOut(`${text}\n`);
  });
}

function show<T>(facts: T, { output }: DescribeFlags, render: (facts: T, nowMs: number) => string): string {
  return output === "json" ? JSON.stringify(facts, undefined, 2) : render(facts, Date.now());
}
