/** The controller that leads: without one, the state of services is old. */

import { MANAGER_CONTROLLER, NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import { LEASES } from "../../src/kube/kinds.ts";
import { leadershipNote } from "../../src/verdicts/leadership.ts";
import type { Cluster } from "./cluster.ts";

/** Undefined while a controller leads, and for a credential that may not read the Lease: it cannot tell. */
export async function readLeadershipNote({ client }: Cluster, nowMs: number): Promise<string | undefined> {
  const lease = await client.get(LEASES, { name: MANAGER_CONTROLLER, namespace: NAMESPACE_SYSTEM });
  if (!lease.ok && lease.error.kind !== "notFound") return undefined;
  return leadershipNote(lease.ok ? lease.value : undefined, nowMs);
}
