/** Collects the facts about one host's liveness from its Host, its Lease and its replicas. Pure. */
import { getCondition, isConditionTrue } from "../../../src/api/conditions.ts";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { NEVER_SEEN } from "../../../src/api/joined.ts";
import type { Lease } from "../../../src/kube/objects.ts";
import { LOST, REACHABLE } from "./conditions.ts";
import type { HostSign } from "./liveness.ts";
import type { LeaseMark } from "./signs.ts";

export interface ObservedHostSign
  extends Pick<HostSign, "lastChangeMs" | "absence" | "isDeclaredLost" | "isForcedLost"> {
  readonly lease: Lease | undefined;
  readonly replicas: readonly InferenceReplica[];
}

export function readSign(
  { metadata, status }: Host,
  { lease, replicas, ...seen }: ObservedHostSign,
): HostSign {
  const limits = replicas.map(({ spec }) => spec.hostLostSeconds * 1000);
  return {
    name: metadata.name,
    ...seen,
    hasHolder: lease !== undefined && leaseMarkOf(lease).holder !== undefined,
    reachable: readReachable(status),
    isLost: isConditionTrue(status?.conditions, LOST),
    lostAfterMs: limits.length === 0 ? undefined : Math.min(...limits),
  };
}

/** The fields of a Lease that show that its host is alive. A Lease that `host add` created has neither. */
export function leaseMarkOf({ spec }: Lease): LeaseMark {
  return { holder: spec?.holderIdentity || undefined, renewTime: spec?.renewTime };
}

/** Undefined for a host whose agent has never reported, because it cannot fall silent. */
function readReachable(status: Host["status"]): HostSign["reachable"] {
  const condition = getCondition(status?.conditions, REACHABLE);
  return condition?.reason === NEVER_SEEN ? undefined : condition?.status;
}
