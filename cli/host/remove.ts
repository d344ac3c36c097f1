/** `metalbridge host remove`: revokes the permissions of a host at once, and deletes its objects. */

import { MetalbridgeError } from "../../src/api/errors.ts";
import { HOSTS, INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import { keyOf } from "../../src/api/names.ts";
import { type Cluster, withCluster } from "../cluster/cluster.ts";
import { findIfPresent, listAll } from "../cluster/find.ts";
import type { ClusterFlags } from "../cluster/flags.ts";
import { followDrain } from "../drain/follow.ts";
import { writeHostChange } from "../drain/patch.ts";
import { confirm } from "../program/confirm.ts";
import { printLine, printNote } from "../program/output.ts";
import { removeAccess, removeOne } from "./access.ts";

export interface RemoveFlags extends ClusterFlags {
  readonly drain?: boolean;
  readonly timeout: number;
  readonly yes?: boolean;
}

/** Can be repeated: objects that no longer exist are skipped. Throws HostNotFound if the host had no objects. */
export async function hostRemove(name: string, flags: RemoveFlags): Promise<void> {
  await withCluster("host", flags, async (cluster) => {
    const host = await findIfPresent(cluster, HOSTS, name);
    if (host !== undefined && flags.drain === true) {
      const drained = await writeHostChange(cluster, host, { drain: true });
      if (!(await followDrain(cluster, drained.host, flags.timeout))) return;
    }
    const replicas = await replicasOn(cluster, name);
    if (replicas.length > 0) {
      printNote(`on host ${name}: ${replicas.join(", ")}; they leave their Services at once`);
      printNote(`to move them first: metalbridge host remove ${name} --drain`);
      if (flags.yes !== true) await confirm(`remove host ${name} with its replicas?`);
    }
    const removed = [...(await removeAccess(cluster, name))];
    if (await removeOne(cluster, HOSTS, { name })) removed.push(`Host ${name}`);
    if (removed.length === 0)
      throw new MetalbridgeError("HostNotFound", `host ${name} has no objects in the cluster`);
    printLine(`host ${name} is removed; deleted: ${removed.join(", ")}`);
    printNote(
      "an agent that still runs on the machine keeps its engines, but no Service sends requests to them",
    );
  });
}

async function replicasOn(cluster: Cluster, name: string): Promise<readonly string[]> {
  const found = await listAll(cluster, INFERENCE_REPLICAS, {
    fieldSelector: `spec.template.hostName=${name}`,
  });
  return found.map(({ metadata }) => keyOf(metadata)).sort();
}
