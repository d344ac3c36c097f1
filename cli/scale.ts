/** `metalbridge scale`: how many replicas a service shall have. */

import type { Command } from "commander";
import { INFERENCE_SERVICES } from "../src/api/kinds.ts";
import { withCluster } from "./cluster/cluster.ts";
import { explainAttempt } from "./cluster/failure.ts";
import { findService } from "./cluster/find.ts";
import { addNamespacedFlags, type ClusterFlags, countParser, parseServiceName } from "./cluster/flags.ts";
import { writeErr, writeOut } from "./program/output.ts";

interface ScaleFlags extends ClusterFlags {
  readonly replicas?: number;
}

/** Options and action of the verb. */
export function configureScale(command: Command): void {
  addNamespacedFlags(command)
    .argument("<service>", "name of the InferenceService", parseServiceName)
    .argument("[replicas]", "how many; 0 stops all and keeps the service", countParser(0))
    .option("--replicas <n>", "the same, as kubectl scale has it", countParser(0))
    .action(async (name: string, count: number | undefined, flags: ScaleFlags) => {
      const replicas = count ?? flags.replicas;
      if (replicas === undefined) command.error("error: missing required argument 'replicas'");
      await scale(name, replicas, flags);
    });
}

async function scale(name: string, replicas: number, flags: ClusterFlags): Promise<void> {
  await withCluster("scale", flags, async (cluster) => {
    const { metadata, spec } = await findService(cluster, name);
    const result = await cluster.client.jsonPatch(INFERENCE_SERVICES, metadata, [
      { op: "test", path: "/metadata/uid", value: metadata.uid },
      { op: "add", path: "/spec/replicas", value: replicas },
    ]);
    if (!result.ok)
      throw explainAttempt({ verb: "patch", kind: INFERENCE_SERVICES, name, ...cluster }, result.error);
    writeOut(
      spec.replicas === replicas
        ? `service ${name} has spec.replicas ${replicas} already\n`
        : `service ${name} is scaled from ${spec.replicas} to ${replicas}\n`,
    );
    if (spec.suspend) writeErr("it is suspended: none runs until spec.suspend is false\n");
  });
}
