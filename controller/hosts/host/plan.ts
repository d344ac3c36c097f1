/** Plans the pass over one host: its conditions, those of its replicas, its slices, and its lost replicas. Pure. */

import { type Condition, getCondition } from "../../../src/api/conditions.ts";
import { ANNOTATION_LOST, FINALIZER_ENGINE } from "../../../src/api/group.ts";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { NEVER_SEEN } from "../../../src/api/joined.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import type { EndpointSlice } from "../../../src/kube/objects.ts";
import type { ReportedEvent } from "../../frame/watches/events.ts";
import {
  FLAPPING,
  flappingUpdate,
  HOST_REACHABLE,
  LOST,
  lostUpdate,
  REACHABLE,
  reachableUpdate,
  replicaUpdate,
  withUpdates,
} from "./conditions.ts";
import { overdueInMs } from "./deletions.ts";
import { DRAINED, drainedUpdate, type FindDrainBlocker } from "./drain.ts";
import { changesAfter, type Flapping, readFlapping } from "./flapping.ts";
import type { LivenessVerdict } from "./liveness.ts";

export interface HostObserved {
  readonly name: string;
  /** Absent if a live read has confirmed that the Host object no longer exists. */
  readonly host?: Host;
  readonly verdict: LivenessVerdict;
  /** True if the host was declared lost, but has renewed its Lease since. */
  readonly isDeclarationRefuted?: boolean;
  readonly replicas: readonly InferenceReplica[];
  /** Milliseconds for which a reachable host has kept each replica that is being deleted, by uid. */
  readonly leavingMs: ReadonlyMap<string, number>;
  readonly slices: readonly EndpointSlice[];
  readonly blockerOf: FindDrainBlocker;
}

export type HostStep =
  | {
      readonly do: "setHostConditions";
      readonly host: Host;
      readonly conditions: Condition[];
      /** Recent changes of reachability, which are written together with condition Reachable. */
      readonly reachableChanges: readonly string[];
      readonly events: readonly ReportedEvent[];
    }
  | {
      readonly do: "setReplicaReachable";
      readonly replica: InferenceReplica;
      readonly conditions: Condition[];
    }
  | { readonly do: "withdrawSlice"; readonly slice: EndpointSlice; readonly because: string }
  | { readonly do: "forceDeleteReplica"; readonly replica: InferenceReplica; readonly because: string }
  | { readonly do: "finishDeletion"; readonly replica: InferenceReplica; readonly because: string }
  | { readonly do: "clearDeclaration"; readonly host: Host; readonly event?: ReportedEvent };

export interface HostPlan {
  readonly steps: readonly HostStep[];
  /** True if a live read of the Lease must confirm the silence first. */
  readonly needsProof: boolean;
  readonly flapping?: Flapping;
}

/** Level-triggered: plans from the current difference only. */
export function planHost(observed: HostObserved, nowIso: string): HostPlan {
  const { name, host, verdict } = observed;
  const isUnavailable = verdict.at === "unreachable" || verdict.at === "lost" || host === undefined;
  const steps: HostStep[] = isUnavailable ? withdrawals(observed) : [];
  // Comes before the conditions, which until then show whether the host was lost.
  if (host !== undefined && observed.isDeclarationRefuted === true) steps.push(clearDeclaration(host));
  const reachableChanges =
    verdict.at === "neverSeen" ? [] : changesAfter(host?.status, reachableUpdate(verdict), nowIso);
  const flapping = readFlapping(reachableChanges, nowIso);
  if (host !== undefined) {
    const conditions = hostConditions(observed, host, flapping, nowIso);
    if (conditions !== undefined) {
      const events = hostEvents(host.status?.conditions, conditions);
      steps.push({ do: "setHostConditions", host, conditions, reachableChanges, events });
    }
  }
  for (const replica of observed.replicas) {
    const update = replicaUpdate(name, host, verdict, replica);
    const options = { nowIso, ended: [] };
    const conditions = withUpdates(replica.status?.conditions, [HOST_REACHABLE], [update], options);
    if (conditions !== undefined) steps.push({ do: "setReplicaReachable", replica, conditions });
  }
  steps.push(...lossesOf(observed), ...overdueDeletions(observed));
  return { steps, needsProof: dependsOnSilence(observed) && steps.some(followsFromSilence), flapping };
}

/** True if a slice has an endpoint that kube-proxy would send traffic to. */
export function hasServingEndpoint({ endpoints }: EndpointSlice): boolean {
  return (endpoints ?? []).some(({ conditions }) => {
    const { ready, serving, terminating } = conditions ?? {};
    return ready !== false || serving !== false || terminating !== true;
  });
}

/** False for a forced declaration and for a deleted Host, which do not depend on the Lease. */
function dependsOnSilence({ host, verdict }: HostObserved): boolean {
  if (host === undefined) return false;
  if (verdict.at === "lost") return verdict.isForced !== true;
  return verdict.at === "unreachable" || verdict.at === "massExpiry";
}

/** False for steps that do not follow from silence, such as the progress of a drain. */
function followsFromSilence(step: HostStep): boolean {
  if (step.do === "clearDeclaration") return false;
  if (step.do !== "setHostConditions") return true;
  return step.events.some(({ action }) => action === "Judge");
}

function withdrawals({ name, host, slices }: HostObserved): HostStep[] {
  const because = becauseOf(name, host, "unreachable");
  return slices.filter(hasServingEndpoint).map((slice) => ({ do: "withdrawSlice", slice, because }));
}

/** These steps come last, so that Lost=True is written before any replica is deleted. */
function lossesOf({ name, host, verdict, replicas }: HostObserved): HostStep[] {
  const isDeclared = verdict.at === "lost" && verdict.isDeclared;
  const because = isDeclared ? `host ${name} was declared lost` : becauseOf(name, host, "lost");
  return replicas
    .filter((replica) => {
      const hasFinalizer = replica.metadata.finalizers?.includes(FINALIZER_ENGINE) === true;
      const isLost = host === undefined || isLostFor(verdict, replica.spec.hostLostSeconds * 1000);
      return isLost && (hasFinalizer || !isBeingDeleted(replica));
    })
    .map((replica) => ({ do: "forceDeleteReplica", replica, because }));
}

/** A host may keep a deleted replica only for its drain. Otherwise it could serve a deleted service indefinitely. */
function overdueDeletions({ name, replicas, leavingMs }: HostObserved): HostStep[] {
  return replicas
    .filter((replica) => (overdueInMs(replica, leavingMs) ?? 1) <= 0)
    .map((replica) => {
      const seconds = Math.floor((leavingMs.get(replica.metadata.uid ?? "") ?? 0) / 1000);
      const because = `host ${name} is reachable and has kept this replica for ${seconds} s after its deletion, longer than its drain of ${replica.spec.drainSeconds} s; its engine may still run there`;
      return { do: "finishDeletion", replica, because };
    });
}

function isLostFor(verdict: LivenessVerdict, limitMs: number): boolean {
  return verdict.at === "lost" && (verdict.isDeclared || verdict.silentMs >= limitMs);
}

function becauseOf(name: string, host: Host | undefined, state: "unreachable" | "lost"): string {
  return host === undefined ? `host ${name} was deleted` : `host ${name} is ${state}`;
}

function hostConditions(
  { verdict, replicas, blockerOf }: HostObserved,
  host: Host,
  flapping: Flapping | undefined,
  nowIso: string,
): Condition[] | undefined {
  const isAwaited = verdict.at === "neverSeen";
  const reachable = reachableUpdate(verdict);
  const drained = drainedUpdate(host, replicas, blockerOf);
  const updates = [
    reachable,
    reachable === undefined ? undefined : lostUpdate(verdict),
    isAwaited ? undefined : flappingUpdate(host, flapping),
    drained,
  ];
  const ended = [...(drained === undefined ? [DRAINED] : []), ...(isAwaited ? [LOST, FLAPPING] : [])];
  const types = [REACHABLE, LOST, FLAPPING, DRAINED];
  return withUpdates(host.status?.conditions, types, updates, { nowIso, ended });
}

/** Records an Event only if the conditions show that the host was not lost, so the declaration was a mistake. */
function clearDeclaration(host: Host): HostStep {
  const wasLost = host.status?.conditions?.some(({ type, status }) => type === LOST && status === "True");
  if (wasLost === true) return { do: "clearDeclaration", host };
  const note = `the host was declared lost (${ANNOTATION_LOST}), but its agent still renews its Lease, so the annotation was removed; stop the machine first, or drain it: metalbridge drain ${host.metadata.name}`;
  return {
    do: "clearDeclaration",
    host,
    event: { type: "Warning", reason: "HostNotLost", action: "Judge", note },
  };
}

/** One Event for each condition whose status or reason has changed. */
function hostEvents(before: readonly Condition[] | undefined, after: readonly Condition[]): ReportedEvent[] {
  const events: ReportedEvent[] = [];
  for (const type of [REACHABLE, LOST, FLAPPING, DRAINED]) {
    const [was, is] = [getCondition(before, type), getCondition(after, type)];
    if (is === undefined || (was?.status === is.status && was.reason === is.reason)) continue;
    const event = eventOf(was, is);
    if (event !== undefined) events.push(event);
  }
  return events;
}

function eventOf(
  was: Condition | undefined,
  { type, status, reason, message: note }: Condition,
): ReportedEvent | undefined {
  switch (type) {
    case REACHABLE: {
      const action = "Judge";
      if (status === "True" && was?.status === "False") {
        const text = "the agent renews its Lease again; engines whose replicas were rescheduled are stopped";
        return { type: "Normal", reason: "HostReturned", action, note: text };
      }
      // Hosts may be registered long before they join.
      if (reason === NEVER_SEEN) return undefined;
      return { type: status === "True" ? "Normal" : "Warning", reason, action, note };
    }
    case LOST:
    case FLAPPING:
      return status === "True" ? { type: "Warning", reason, action: "Judge", note } : undefined;
    case DRAINED:
      return { type: reason === "DrainBlocked" ? "Warning" : "Normal", reason, action: "Drain", note };
    default:
      return undefined;
  }
}
