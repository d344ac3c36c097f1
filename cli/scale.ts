/** `metalbridge scale`: sets the number of replicas of a service. */

import type { Command } from "commander";
import { INFERENCE_SERVICES } from "../src/api/kinds.ts";
import { withCluster } from "./cluster/cluster.ts";
import { patchObject } from "./cluster/failure.ts";
import { findObject } from "./cluster/find.ts";
import { addNamespacedFlags, type ClusterFlags, countParser, parseServiceName } from "./cluster/flags.ts";
import { printLine, printNote } from "./program/output.ts";

interface ScaleFlags extends ClusterFlags {
  readonly replicas?: number;
}

/** Options and action of the verb. */
export function configureScale(command: Command): void {
  addNamespacedFlags(command)
    .argument("<service>", "name of the InferenceService", parseServiceName)
    .argument("[replicas]", "number of replicas; 0 stops all replicas and keeps the service", countParser(0))
    .option("--replicas <n>", "number of replicas, as in kubectl scale", countParser(0))
    .action(async (name: string, count: number | undefined, flags: ScaleFlags) => {
      const replicas = count ?? flags.replicas;
      if (replicas === undefined) command.error("error: missing required argument 'replicas'");
      await scale(name, replicas, flags);
    });
}

async function scale(name: string, replicas: number, flags: ClusterFlags): Promise<void> {
  await withCluster("scale", flags, async (cluster) => {
    const service = await findObject(cluster, INFERENCE_SERVICES, name);
    const { spec } = service;
    const set = { op: "add", path: "/spec/replicas", value: replicas } as const;
    await patchObject(cluster, INFERENCE_SERVICES, service, [set]);
    printLine(
      spec.replicas === replicas
        ? `service ${name} has spec.replicas ${replicas} already`
        : `service ${name} is scaled from ${spec.replicas} to ${replicas}`,
    );
    if (service.status?.idle?.state === "Idle" && replicas > 0 && !spec.suspend)
      printNote("the service is idle: its replicas start with the next request through the gateway");
    if (spec.suspend) printNote("the service is suspended: no replica runs until spec.suspend is false");
  });
}
