/** The controller that leads: without one, the state of services is old. */

import { MANAGER_CONTROLLER, NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import { LEASES } from "../../src/kube/kinds.ts";
import type { Lease } from "../../src/kube/objects.ts";
import type { Cluster } from "./cluster.ts";

/** Undefined while a controller leads, and for a credential that may not read the Lease: it cannot tell. */
export async function readLeadershipNote({ client }: Cluster, nowMs: number): Promise<string | undefined> {
  const lease = await client.get(LEASES, { name: MANAGER_CONTROLLER, namespace: NAMESPACE_SYSTEM });
  if (!lease.ok && lease.error.kind !== "notFound") return undefined;
  return leadershipNote(lease.ok ? lease.value : undefined, nowMs);
}

/** A controller that has not renewed its Lease of 15 s for this long does not lead. Clocks may differ. */
const LEADERLESS_MS = 60_000;

/** Reads the Lease of the leader election. Undefined while a controller leads. */
export function leadershipNote(lease: Lease | undefined, nowMs: number): string | undefined {
  const { holderIdentity = "", renewTime } = lease?.spec ?? {};
  if (renewTime === undefined) return "no controller has run yet; start one: metalbridge controller";
  if (holderIdentity !== "" && nowMs - Date.parse(renewTime) < LEADERLESS_MS) return undefined;
  return `no controller has led since ${renewTime}; the data is from that time`;
}
