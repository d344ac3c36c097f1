/** Changes to Host.spec that an operator requests. */
import type { Host } from "../../src/api/host.ts";
import type { HostChange } from "../../src/api/host-change.ts";
import { HOSTS } from "../../src/api/kinds.ts";
import type { JsonPatchOp } from "../../src/kube/types.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { patchObject } from "../cluster/failure.ts";

/** Sets only the fields that differ. Pure. */
export function changeOperations({ spec }: Host, change: HostChange): readonly JsonPatchOp[] {
  // A Host may have been written before the API server filled in defaults.
  const has: HostChange = spec ?? {};
  const differing = (Object.entries(change) as [keyof HostChange, boolean][]).filter(
    ([field, value]) => (has[field] ?? false) !== value,
  );
  if (differing.length === 0) return [];
  if (spec === undefined) return [{ op: "add", path: "/spec", value: Object.fromEntries(differing) }];
  return differing.map(([field, value]) => ({ op: "add", path: `/spec/${field}`, value }));
}

/** Returns the Host after the change, and whether anything was written. Only single fields are set, so writes by other clients cannot conflict. */
export async function writeHostChange(
  cluster: Cluster,
  host: Host,
  change: HostChange,
): Promise<{ readonly host: Host; readonly isChanged: boolean }> {
  const operations = changeOperations(host, change);
  if (operations.length === 0) return { host, isChanged: false };
  return { host: await patchObject(cluster, HOSTS, host, operations), isChanged: true };
}
