/** What the controller does about one host: its conditions, those of its replicas, its slices, and what was lost with it. Pure. */

import type { Condition, ConditionUpdate } from "../../src/api/conditions.ts";
import { getCondition, isConditionTrue, setCondition } from "../../src/api/conditions.ts";
import { FINALIZER_ENGINE } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { EndpointSlice } from "../../src/kube/objects.ts";
import { DEFAULT_LOST_MS, type Verdict } from "./liveness.ts";

export const REACHABLE = "Reachable";
export const LOST = "Lost";
export const HOST_REACHABLE = "HostReachable";

export interface HostObserved {
  readonly name: string;
  /** Absent when the Host object is gone, which a live read has confirmed. */
  readonly host?: Host | undefined;
  readonly verdict: Verdict;
  readonly replicas: readonly InferenceReplica[];
  readonly slices: readonly EndpointSlice[];
}

export type HostStep =
  | { readonly do: "setHostConditions"; readonly host: Host; readonly conditions: Condition[] }
  | {
      readonly do: "setReplicaReachable";
      readonly replica: InferenceReplica;
      readonly conditions: Condition[];
    }
  | { readonly do: "withdrawSlice"; readonly slice: EndpointSlice; readonly because: string }
  | { readonly do: "giveUpReplica"; readonly replica: InferenceReplica; readonly because: string };

export interface HostPlan {
  readonly steps: readonly HostStep[];
  /** True where the silence must be confirmed by a live read of the Lease first. */
  readonly needsProof: boolean;
}

/** Level-triggered: says what differs now, whatever happened before. */
export function planHost(observed: HostObserved, nowIso: string): HostPlan {
  const { host, verdict } = observed;
  const isGone = verdict.at === "unreachable" || verdict.at === "lost" || host === undefined;
  const steps: HostStep[] = isGone ? withdrawals(observed) : [];
  if (host !== undefined) {
    const conditions = hostConditions(host, verdict, nowIso);
    if (conditions !== undefined) steps.push({ do: "setHostConditions", host, conditions });
  }
  for (const replica of observed.replicas) {
    const conditions = withUpdates(replica.status?.conditions, [replicaUpdate(observed, replica)], nowIso);
    if (conditions !== undefined) steps.push({ do: "setReplicaReachable", replica, conditions });
  }
  if (isGone) steps.push(...lossesOf(observed));
  return { steps, needsProof: isGone && host !== undefined && steps.length > 0 };
}

/** Has a slice an endpoint that kube-proxy would send to? */
export function isServing({ endpoints }: EndpointSlice): boolean {
  return (endpoints ?? []).some(({ conditions }) => {
    const { ready, serving, terminating } = conditions ?? {};
    return ready !== false || serving !== false || terminating !== true;
  });
}

function withdrawals({ name, host, slices }: HostObserved): HostStep[] {
  const because = becauseOf(name, host);
  return slices.filter(isServing).map((slice) => ({ do: "withdrawSlice", slice, because }));
}

/** Last of all, so that Lost=True stands before anything is let go. */
function lossesOf({ name, host, verdict, replicas }: HostObserved): HostStep[] {
  const because = becauseOf(name, host);
  const silentMs = "silentMs" in verdict ? verdict.silentMs : 0;
  return replicas
    .filter(({ metadata, spec }) => {
      const isLost = host === undefined || (verdict.at === "lost" && silentMs >= spec.hostLostSeconds * 1000);
      const isHeld = metadata.finalizers?.includes(FINALIZER_ENGINE) === true;
      return isLost && (isHeld || metadata.deletionTimestamp === undefined);
    })
    .map((replica) => ({ do: "giveUpReplica", replica, because }));
}

function becauseOf(name: string, host: Host | undefined): string {
  return host === undefined ? `host ${name} was deleted` : `host ${name} is silent`;
}

function hostConditions(host: Host, verdict: Verdict, nowIso: string): Condition[] | undefined {
  const reachable = reachableUpdate(verdict);
  if (reachable === undefined) return undefined;
  const isLost = verdict.at === "lost";
  const lost: ConditionUpdate = isLost
    ? {
        type: LOST,
        status: "True",
        reason: "HostLost",
        message: `its agent was silent for so long that its replicas are placed anew; start the agent again, or delete the Host`,
      }
    : { type: LOST, status: "False", reason: reachable.reason, message: "" };
  return withUpdates(host.status?.conditions, [reachable, lost], nowIso);
}

function reachableUpdate(verdict: Verdict): ConditionUpdate | undefined {
  const type = REACHABLE;
  switch (verdict.at) {
    case "reachable":
      return { type, status: "True", reason: "HostReachable", message: "its agent renews its Lease" };
    case "counting":
      return undefined;
    case "neverSeen": {
      const message = "no agent has renewed its Lease yet; start the agent on the host";
      return { type, status: "Unknown", reason: "HostNeverSeen", message };
    }
    case "massExpiry": {
      const message =
        "more than half of the hosts fell silent together, so nothing is withdrawn; check the network between the hosts and the API server";
      return { type, status: "Unknown", reason: "MassExpiry", message };
    }
    case "unreachable":
    case "lost": {
      const minutes = DEFAULT_LOST_MS / 60_000;
      const message = `its agent does not renew its Lease; its engines get no new requests and, after hostLostSeconds (${minutes} min unless set), are placed anew`;
      return { type, status: "False", reason: "HostUnreachable", message };
    }
    default:
      return verdict satisfies never;
  }
}

/** A host in mass expiry or still counting leaves its replicas as they are; a new one takes over what its Host says. */
function replicaUpdate(
  { name, host, verdict }: HostObserved,
  replica: InferenceReplica,
): ConditionUpdate | undefined {
  const type = HOST_REACHABLE;
  if (host === undefined) {
    return { type, status: "False", reason: "HostDeleted", message: `host ${name} was deleted` };
  }
  switch (verdict.at) {
    case "reachable":
      return { type, status: "True", reason: "HostReachable", message: "" };
    case "unreachable":
      return {
        type,
        status: "False",
        reason: "HostUnreachable",
        message: `the agent of host ${name} is silent`,
      };
    case "lost":
      return { type, status: "False", reason: "HostLost", message: `host ${name} is lost` };
    case "counting":
      return isNewcomer(host, replica)
        ? { type, status: "True", reason: "HostReachable", message: "" }
        : undefined;
    case "massExpiry":
    case "neverSeen":
      return undefined;
    default:
      return verdict satisfies never;
  }
}

function isNewcomer(host: Host, { status }: InferenceReplica): boolean {
  return (
    isConditionTrue(host.status?.conditions, REACHABLE) &&
    getCondition(status?.conditions, HOST_REACHABLE) === undefined
  );
}

/** The controller's own conditions with the updates, or undefined where they say so already. */
function withUpdates(
  conditions: readonly Condition[] | undefined,
  updates: readonly (ConditionUpdate | undefined)[],
  nowIso: string,
): Condition[] | undefined {
  let next: Condition[] = [];
  let differs = false;
  for (const update of updates) {
    if (update === undefined) continue;
    const before = getCondition(conditions, update.type);
    const isSame =
      before?.status === update.status &&
      before.reason === update.reason &&
      before.message === update.message;
    if (!isSame) differs = true;
    next = [...next, ...setCondition(before === undefined ? [] : [before], update, nowIso)];
  }
  return differs ? next : undefined;
}
