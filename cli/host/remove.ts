/** `metalbridge host remove`: ends what a host could do, at once, and takes its objects away. */

import { MetalbridgeError } from "../../src/api/errors.ts";
import { HOSTS, INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import { keyOf } from "../../src/api/names.ts";
import { type Cluster, withCluster } from "../cluster/cluster.ts";
import { findIfPresent, listAll } from "../cluster/find.ts";
import type { ClusterFlags } from "../cluster/flags.ts";
import { followDrain } from "../drain/follow.ts";
import { writeHostChange } from "../drain/patch.ts";
import { confirm } from "../program/confirm.ts";
import { writeErr, writeOut } from "../program/output.ts";
import { removeAccess, removeOne } from "./access.ts";

export interface RemoveFlags extends ClusterFlags {
  readonly drain?: boolean;
  readonly timeout: number;
  readonly yes?: boolean;
}

/** May be repeated: what is gone already is left out. Throws HostNotFound where nothing of the host was there. */
export async function hostRemove(name: string, flags: RemoveFlags): Promise<void> {
  await withCluster("host", flags, async (cluster) => {
    const host = await findIfPresent(cluster, HOSTS, name);
    if (host !== undefined && flags.drain === true) {
      const drained = await writeHostChange(cluster, host, { drain: true });
      if (!(await followDrain(cluster, drained.host, flags.timeout))) return;
    }
    const replicas = await replicasOn(cluster, name);
    if (replicas.length > 0) {
      writeErr(`on host ${name}: ${replicas.join(", ")}; they leave their Services at once\n`);
      writeErr(`to move them first: metalbridge host remove ${name} --drain\n`);
      if (flags.yes !== true) await confirm(`remove host ${name} with its replicas?`);
    }
    const removed = [...(await removeAccess(cluster, name))];
    if (await removeOne(cluster, HOSTS, { name })) removed.push(`Host ${name}`);
    if (removed.length === 0) throw new MetalbridgeError("HostNotFound", `there is nothing of host ${name}`);
    writeOut(`host ${name} is removed; gone: ${removed.join(", ")}\n`);
    writeErr("an agent that still runs there keeps its engines, which no Service leads to\n");
  });
}

async function replicasOn(cluster: Cluster, name: string): Promise<readonly string[]> {
  const found = await listAll(cluster, INFERENCE_REPLICAS, {
    fieldSelector: `spec.template.hostName=${name}`,
  });
  return found.map(({ metadata }) => keyOf(metadata)).sort();
}
