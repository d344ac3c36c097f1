/** Checks that a controller leads, by the Lease of the leader election: without a leader, the state of services is old. Pure. */
import type { Lease } from "../kube/objects.ts";

/** A controller that has not renewed its Lease of 15 s for this long does not lead. Clocks may differ. */
const LEADERLESS_MS = 60_000;

export type LeadershipLease = Pick<Lease, "spec">;

/** `lease`: undefined if there is none. Undefined while a controller leads. */
export function leadershipNote(lease: LeadershipLease | undefined, nowMs: number): string | undefined {
  const { holderIdentity = "", renewTime } = lease?.spec ?? {};
  if (renewTime === undefined) return "no controller has run yet; start one: metalbridge controller";
  if (holderIdentity !== "" && nowMs - Date.parse(renewTime) < LEADERLESS_MS) return undefined;
  return `no controller has led since ${renewTime}; the data is from that time`;
}
