/** Reconciles one host: its conditions, the reachability of its replicas, its slices, its prefetches, and its replicas once it is lost. */

import {
  ANNOTATION_LOST,
  FINALIZER_ENGINE,
  MANAGER_CONTROLLER,
  MANAGER_PREFETCH,
  NAMESPACE_HOSTS,
} from "../../../src/api/group.ts";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES } from "../../../src/api/kinds.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import { keyOf } from "../../../src/api/names.ts";
import { prefetchOrders } from "../../../src/capacity/prefetch.ts";
import { ENDPOINT_SLICES, LEASES } from "../../../src/kube/kinds.ts";
import type { EndpointSlice } from "../../../src/kube/objects.ts";
import type { Recheck } from "../../../src/kube/queue.ts";
import type { JsonPatchOp, KubeClient } from "../../../src/kube/types.ts";
import { isDeepEqual } from "../../../src/util/deep-equal.ts";
import { isoSeconds } from "../../../src/util/iso-seconds.ts";
import { ApiCallFailed, isSettled } from "../../frame/apply/failure.ts";
import { versionGuards } from "../../frame/owned/corrections.ts";
import type { ControllerPorts } from "../../frame/ports.ts";
import { reportOn } from "../../frame/watches/events.ts";
import { type Deletions, overdueInMs } from "./deletions.ts";
import type { DrainBlockers } from "./drain-blockers.ts";
import type { FleetLiveness } from "./fleet.ts";
import { type LivenessVerdict, SILENCE_MS } from "./liveness.ts";
import { type HostObserved, type HostStep, planHost } from "./plan.ts";
import { leaseMarkOf } from "./sign.ts";
import type { LeaseSigns } from "./signs.ts";

const RECHECK_MS = 5_000;
const WITHDRAWN = { ready: false, serving: false, terminating: true };

export interface HostPorts extends ControllerPorts {
  readonly fleet: FleetLiveness;
  readonly signs: LeaseSigns;
  readonly deletions: Deletions;
  readonly drainBlockers: DrainBlockers;
}

export async function reconcileHost(ports: HostPorts, name: string): Promise<Recheck | undefined> {
  const { watches, clock, fleet } = ports;
  const host = watches.hosts.get(name);
  const replicas = watches.replicasOfHost.of(name);
  const slices = watches.slicesOfHost.of(name);
  if (host === undefined && !(await isDeleted(ports, name))) return { recheckAfterMs: RECHECK_MS };
  const verdict = fleet.verdictOf(name);
  const nowIso = isoSeconds(clock.nowMs());
  // A silent host is judged by its silence, and gets the full time for deletions again when it returns.
  const leavingMs = ports.deletions.note(name, verdict.at === "reachable" ? replicas : []);
  const observed: HostObserved = {
    name,
    host,
    verdict,
    replicas,
    leavingMs,
    slices,
    blockerOf: ports.drainBlockers.reason,
    isDeclarationRefuted: fleet.isDeclarationRefuted(name),
  };
  const { steps, needsProof, flapping } = planHost(observed, nowIso);
  if (needsProof && !(await isSilent(ports, name))) return { recheckAfterMs: RECHECK_MS };
  let isBehind = false;
  for (const step of steps) if (!(await applyStep(ports, step, verdict))) isBehind = true;
  if (host !== undefined && !(await writePrefetch(ports, host))) isBehind = true;
  if (isBehind) return { recheckAfterMs: 1_000 };
  if (host === undefined && replicas.length === 0 && slices.length === 0) return forgetLease(ports, name);
  const flappingMs = flapping === undefined ? [] : [flapping.untilMs - clock.nowMs() + 1];
  const inMs = [...nextLimits(observed), ...flappingMs];
  return inMs.length === 0 ? undefined : { recheckAfterMs: Math.max(1, Math.min(...inMs)) };
}

/** Reads the Lease from the API server before anything is withdrawn, because the watch may be behind or disconnected. */
async function isSilent({ client, signs, log }: HostPorts, name: string): Promise<boolean> {
  const result = await client.get(LEASES, { name, namespace: NAMESPACE_HOSTS });
  if (!result.ok) return result.error.kind === "notFound";
  const hasRenewed = signs.note(name, leaseMarkOf(result.value), false);
  if (hasRenewed) log.info({ host: name }, "the watch was behind: the host has renewed its Lease");
  return !hasRenewed;
}

async function isDeleted({ client }: HostPorts, name: string): Promise<boolean> {
  const result = await client.get(HOSTS, { name });
  return !result.ok && result.error.kind === "notFound";
}

/** Returns false if another client wrote first. */
function applyStep(ports: HostPorts, step: HostStep, verdict: LivenessVerdict): Promise<boolean> {
  switch (step.do) {
    case "setHostConditions":
      return setHostConditions(ports, step, verdict);
    case "setReplicaReachable":
      return setReplicaReachable(ports, step);
    case "withdrawSlice":
      return withdrawSlice(ports, step.slice, step.because);
    case "forceDeleteReplica":
      return forceDeleteReplica(ports, step.replica, step.because);
    case "finishDeletion":
      return finishDeletion(ports, step.replica, step.because);
    case "clearDeclaration":
      return clearDeclaration(ports, step);
    default:
      return step satisfies never;
  }
}

async function setHostConditions(
  { client, log, record }: HostPorts,
  { host, conditions, reachableChanges, events }: Extract<HostStep, { do: "setHostConditions" }>,
  verdict: LivenessVerdict,
): Promise<boolean> {
  const { name } = host.metadata;
  const changes = reachableChanges.length === 0 ? {} : { reachableChanges };
  const object = { metadata: { name }, status: { conditions, ...changes } } as Host;
  const result = await client.apply(HOSTS, object, {
    manager: MANAGER_CONTROLLER,
    subresource: "status",
    current: host,
  });
  if (result.ok && result.value.sent) {
    log.info({ host: name, verdict: verdict.at, events: events.map(({ reason }) => reason) }, "host judged");
    for (const event of events) reportOn(record, HOSTS, host, event);
  }
  return isSettled(`write the conditions of Host ${name}`, result);
}

async function setReplicaReachable(
  { client }: HostPorts,
  { replica, conditions }: Extract<HostStep, { do: "setReplicaReachable" }>,
): Promise<boolean> {
  const { name, namespace = "default" } = replica.metadata;
  const object = { metadata: { name, namespace }, status: { conditions } } as unknown as InferenceReplica;
  const options = { manager: MANAGER_CONTROLLER, subresource: "status", current: replica } as const;
  return isSettled(`write HostReachable of ${name}`, await client.apply(INFERENCE_REPLICAS, object, options));
}

/** Sets all three conditions: if `serving` stayed true, kube-proxy would still send new connections. */
async function withdrawSlice(
  { client, log }: HostPorts,
  slice: EndpointSlice,
  because: string,
): Promise<boolean> {
  const operations = (slice.endpoints ?? []).map((_, index) => ({
    op: "add" as const,
    path: `/endpoints/${index}/conditions`,
    value: WITHDRAWN,
  }));
  const result = await client.jsonPatch(ENDPOINT_SLICES, slice.metadata, [
    ...versionGuards(slice.metadata),
    ...operations,
  ]);
  if (result.ok) log.info({ slice: slice.metadata.name, because }, "slice withdrawn");
  return isSettled(`withdraw slice ${slice.metadata.name}`, result);
}

async function clearDeclaration(
  { client, log, record }: HostPorts,
  { host, event }: Extract<HostStep, { do: "clearDeclaration" }>,
): Promise<boolean> {
  const { name, uid, annotations } = host.metadata;
  const path = `/metadata/annotations/${ANNOTATION_LOST.replace("/", "~1")}`;
  // Not guarded by resourceVersion, which changes with each write of the status. Only the annotation must be unchanged.
  const operations: JsonPatchOp[] = [
    { op: "test", path: "/metadata/uid", value: uid },
    { op: "test", path, value: annotations?.[ANNOTATION_LOST] },
    { op: "remove", path },
  ];
  const result = await client.jsonPatch(HOSTS, { name }, operations);
  if (result.ok) log.info({ host: name }, "no longer declared lost: it renews its Lease");
  if (result.ok && event !== undefined) reportOn(record, HOSTS, host, event);
  return isSettled(`remove ${ANNOTATION_LOST} of Host ${name}`, result);
}

/** Removes the finalizer, because the agent cannot report that the engine has stopped. The agent stops the engine on return. */
async function forceDeleteReplica(
  { client, log, record, watches }: HostPorts,
  replica: InferenceReplica,
  because: string,
): Promise<boolean> {
  const { name, namespace, uid } = replica.metadata;
  if (!isBeingDeleted(replica)) {
    const removed = await client.remove(INFERENCE_REPLICAS, { name, namespace }, { uid });
    if (!removed.ok) return isSettled(`delete replica ${name}`, removed);
    log.info({ replica: name, because }, "replica force-deleted");
    const event = { type: "Warning", reason: "HostLost", action: "Reschedule" } as const;
    reportOn(record, INFERENCE_REPLICAS, replica, { ...event, note: because });
    const service = watches.services.get(keyOf({ namespace, name: replica.spec.template.serviceName }));
    const note = `${name} will be rescheduled: ${because}`;
    if (service !== undefined) reportOn(record, INFERENCE_SERVICES, service, { ...event, note });
  }
  return release(client, replica);
}

async function finishDeletion(
  { client, log, record, watches }: HostPorts,
  replica: InferenceReplica,
  note: string,
): Promise<boolean> {
  if (!(await release(client, replica))) return false;
  const { hostName } = replica.spec.template;
  log.warn(
    { replica: replica.metadata.name, host: hostName },
    "the host kept a deleted replica: finalizer removed",
  );
  const event = { type: "Warning", reason: "DeletionForced", action: "Delete", note } as const;
  reportOn(record, INFERENCE_REPLICAS, replica, event);
  const host = watches.hosts.get(hostName);
  if (host !== undefined) reportOn(record, HOSTS, host, event);
  return true;
}

/** Removes the finalizer, which otherwise stays until the engine has stopped. */
async function release(client: KubeClient, { metadata }: InferenceReplica): Promise<boolean> {
  const { name, namespace, uid, finalizers = [] } = metadata;
  if (!finalizers.includes(FINALIZER_ENGINE)) return true;
  const path = "/metadata/finalizers";
  // Not guarded by resourceVersion, which the deletion has just changed.
  const operations: JsonPatchOp[] = [
    { op: "test", path: "/metadata/uid", value: uid },
    { op: "test", path, value: finalizers },
    { op: "replace", path, value: finalizers.filter((finalizer) => finalizer !== FINALIZER_ENGINE) },
  ];
  const result = await client.jsonPatch(INFERENCE_REPLICAS, { name, namespace }, operations);
  return isSettled(`release replica ${name}`, result);
}

/** Times until the next limit of each replica, for silence or for its deletion. */
function nextLimits({ verdict, replicas, leavingMs }: HostObserved): number[] {
  if (verdict.at === "reachable") return replicas.flatMap((replica) => overdueInMs(replica, leavingMs) ?? []);
  if (verdict.at !== "lost" && verdict.at !== "unreachable") return [];
  return replicas
    .map(({ spec }) => spec.hostLostSeconds * 1000 - verdict.silentMs + 1)
    .filter((ms) => ms > 1);
}

/** Waits until the Lease has expired, because an agent that still waits for its Host renews it. */
async function forgetLease(
  { watches, client, clock, log, signs }: ControllerPorts & { readonly signs: LeaseSigns },
  name: string,
): Promise<Recheck | undefined> {
  const lease = watches.leases.get(`${NAMESPACE_HOSTS}/${name}`);
  if (lease === undefined) return undefined;
  const seen = { lastChangeMs: signs.lastChangeMs(name), countedFromMs: signs.countedFromMs() };
  const leftMs = leaseExpiresInMs(seen, clock.monotonicMs());
  if (leftMs > 0) return { recheckAfterMs: leftMs + 1 };
  const { uid, resourceVersion } = lease.metadata;
  const removed = await client.remove(LEASES, { name, namespace: NAMESPACE_HOSTS }, { uid, resourceVersion });
  if (removed.ok) log.info({ host: name }, "the Lease of a deleted host is removed");
  else if (removed.error.kind === "conflict") return { recheckAfterMs: SILENCE_MS };
  else if (removed.error.kind !== "notFound") {
    throw new ApiCallFailed(`delete the Lease of ${name}`, removed.error);
  }
  return undefined;
}

/** 0 or less once this controller has seen no renewal for the duration of a Lease. */
export function leaseExpiresInMs(
  {
    lastChangeMs = 0,
    countedFromMs,
  }: { readonly lastChangeMs?: number | undefined; readonly countedFromMs: number },
  now: number,
): number {
  return Math.max(lastChangeMs, countedFromMs) + SILENCE_MS - now;
}

/** Returns false if another client wrote first. Uses a separate field manager, because the conditions are applied separately. */
async function writePrefetch({ client, watches, log }: ControllerPorts, host: Host): Promise<boolean> {
  const orders = prefetchOrders(host, watches.prefetchedModels.of("all"));
  if (isDeepEqual(orders, host.status?.prefetch?.wanted ?? [])) return true;
  const { name } = host.metadata;
  const status = orders.length === 0 ? {} : { prefetch: { wanted: orders } };
  const result = await client.apply(HOSTS, { metadata: { name }, status } as Host, {
    manager: MANAGER_PREFETCH,
    subresource: "status",
    current: host,
  });
  if (result.ok) {
    log.info({ host: name, models: orders.map(keyOf) }, "prefetch of a host set");
  }
  return isSettled(`write the prefetch of Host ${name}`, result);
}
