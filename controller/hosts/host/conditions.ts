/** The conditions that the controller owns on a host and on its replicas. Pure. */
import {
  type Condition,
  type ConditionUpdate,
  getCondition,
  isConditionTrue,
  setCondition,
} from "../../../src/api/conditions.ts";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { NEVER_SEEN } from "../../../src/api/joined.ts";
import type { LivenessVerdict } from "./liveness.ts";

export const REACHABLE = "Reachable";
export const LOST = "Lost";
export const FLAPPING = "Flapping";
export const HOST_REACHABLE = "HostReachable";

/** The flapping of one host, as its condition reports it. */
export interface FlapStatus {
  readonly changes: number;
  readonly untilIso: string;
}

const FORCED =
  "declared lost by an operator with --force: no replicas are scheduled or served here, regardless of its agent's reports; to undo this, run: kubectl annotate host NAME metalbridge.dev/lost-";

export function reachableUpdate(verdict: LivenessVerdict): ConditionUpdate | undefined {
  const type = REACHABLE;
  switch (verdict.at) {
    case "reachable":
      return { type, status: "True", reason: "HostReachable", message: "the agent renews its Lease" };
    case "counting":
      return undefined;
    case "neverSeen": {
      const message =
        "no agent has renewed the Lease of this host yet; on the machine, run the command that metalbridge host add prints, and start the agent";
      return { type, status: "Unknown", reason: NEVER_SEEN, message };
    }
    case "massExpiry": {
      const message =
        "more than half of the hosts stopped renewing their Leases at once, so no endpoint is withdrawn: the cause is probably an outage of the network or the API server, or the agents were stopped on purpose; if this host is lost, run: metalbridge host lost NAME";
      return { type, status: "Unknown", reason: "MassExpiry", message };
    }
    case "unreachable":
    case "lost": {
      if (verdict.at === "lost" && verdict.isForced === true)
        return { type, status: "False", reason: "HostUnreachable", message: FORCED };
      const message =
        "no renewal of the agent's Lease for 40 s or longer; engines here get no new requests, and replicas will be rescheduled after their hostLostSeconds; check that the host is awake and on the network, and that its agent runs";
      return { type, status: "False", reason: "HostUnreachable", message };
    }
    default:
      return verdict satisfies never;
  }
}

/** Undefined for a host that has not joined, which cannot be lost. */
export function lostUpdate(verdict: LivenessVerdict): ConditionUpdate | undefined {
  const type = LOST;
  if (verdict.at === "neverSeen") return undefined;
  if (verdict.at !== "lost") return { type, status: "False", reason: "NotLost", message: "" };
  if (verdict.isForced === true) return { type, status: "True", reason: "HostLost", message: FORCED };
  const message = `${lossReason(verdict)}; replicas are rescheduled; start the agent again, or delete the Host`;
  return { type, status: "True", reason: "HostLost", message };
}

function lossReason({ isDeclared }: Extract<LivenessVerdict, { at: "lost" }>): string {
  return isDeclared ? "declared lost by an operator" : "no Lease renewal for longer than hostLostSeconds";
}

/** Once the condition was True, it stays as False. */
export function flappingUpdate(host: Host, flapping: FlapStatus | undefined): ConditionUpdate | undefined {
  const type = FLAPPING;
  if (flapping === undefined) {
    if (getCondition(host.status?.conditions, type) === undefined) return undefined;
    return { type, status: "False", reason: "HostSteady", message: "" };
  }
  const message = `the host is flapping: ${flapping.changes} changes between reachable and unreachable within ten minutes; no replicas are scheduled here until ${flapping.untilIso}; check sleep settings, network and power`;
  return { type, status: "True", reason: "HostFlapping", message };
}

/** Replicas of a host in mass expiry or still counting stay unchanged. A new replica takes over the condition of its Host. */
export function replicaUpdate(
  name: string,
  host: Host | undefined,
  verdict: LivenessVerdict,
  replica: InferenceReplica,
): ConditionUpdate | undefined {
  const type = HOST_REACHABLE;
  if (host === undefined) {
    return { type, status: "False", reason: "HostDeleted", message: `host ${name} was deleted` };
  }
  switch (verdict.at) {
    case "reachable":
      return {
        type,
        status: "True",
        reason: "HostReachable",
        message: `the agent of host ${name} renews its Lease`,
      };
    case "unreachable": {
      const message = `no renewal of the Lease of host ${name} for 40 s or longer; this replica gets no requests and will be rescheduled after ${replica.spec.hostLostSeconds} s without a renewal`;
      return { type, status: "False", reason: "HostUnreachable", message };
    }
    case "lost":
      return {
        type,
        status: "False",
        reason: "HostLost",
        message: `host ${name} is lost: ${lossReason(verdict)}`,
      };
    case "counting":
      return isNewOnReachable(host, replica)
        ? { type, status: "True", reason: "HostReachable", message: `host ${name} is Reachable` }
        : undefined;
    case "massExpiry":
    case "neverSeen":
      return undefined;
    default:
      return verdict satisfies never;
  }
}

function isNewOnReachable(host: Host, { status }: InferenceReplica): boolean {
  return (
    isConditionTrue(host.status?.conditions, REACHABLE) &&
    getCondition(status?.conditions, HOST_REACHABLE) === undefined
  );
}

/**
 * The conditions of `types` with the updates applied, or undefined if nothing changes. Conditions without an update
 * stay, except for those in `ended`, which are removed.
 */
export function withUpdates(
  conditions: readonly Condition[] | undefined,
  types: readonly string[],
  updates: readonly (ConditionUpdate | undefined)[],
  { nowIso, ended }: { readonly nowIso: string; readonly ended: readonly string[] },
): Condition[] | undefined {
  const before = conditions?.filter(({ type }) => types.includes(type)) ?? [];
  let next = before.filter(({ type }) => !ended.includes(type));
  let differs = next.length !== before.length;
  for (const update of updates) {
    if (update === undefined) continue;
    const now = getCondition(conditions, update.type);
    const isSame =
      now?.status === update.status && now.reason === update.reason && now.message === update.message;
    if (!isSame) differs = true;
    next = setCondition(next, update, nowIso);
  }
  return differs ? next : undefined;
}
