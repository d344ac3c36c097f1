/** Changes to Host.spec that an operator asks for. */
import type { Host } from "../../src/api/host.ts";
import { HOSTS } from "../../src/api/kinds.ts";
import type { JsonPatchOp } from "../../src/kube/types.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { explainAttempt } from "../cluster/failure.ts";

/** What decides whether something may be placed on a host. */
export type HostChange = Partial<Pick<Host["spec"], "unschedulable" | "drain">>;

/** Only fields that differ; nothing to do gives no operations. Pure. */
export function changeOperations({ metadata, spec }: Host, change: HostChange): readonly JsonPatchOp[] {
  // A Host may have been written before the API server filled in defaults.
  const has: HostChange = spec ?? {};
  const differing = (Object.entries(change) as [keyof HostChange, boolean][]).filter(
    ([field, value]) => (has[field] ?? false) !== value,
  );
  if (differing.length === 0) return [];
  const guard: JsonPatchOp = { op: "test", path: "/metadata/uid", value: metadata.uid };
  if (spec === undefined) return [guard, { op: "add", path: "/spec", value: Object.fromEntries(differing) }];
  return [
    guard,
    ...differing.map(([field, value]): JsonPatchOp => ({ op: "add", path: `/spec/${field}`, value })),
  ];
}

/** The Host as it is afterwards, and whether anything was written. Single fields are set, so other writers do not matter. */
export async function writeHostChange(
  { client }: Cluster,
  host: Host,
  change: HostChange,
): Promise<{ readonly host: Host; readonly isChanged: boolean }> {
  const operations = changeOperations(host, change);
  if (operations.length === 0) return { host, isChanged: false };
  const { name } = host.metadata;
  const result = await client.jsonPatch(HOSTS, { name }, operations);
  if (!result.ok) throw explainAttempt({ verb: "patch", kind: HOSTS, name }, result.error);
  return { host: result.value, isChanged: true };
}
