/** Has everything come right? Pure over what cluster and machine show at one moment. */
import { getCondition } from "../../../src/api/conditions.ts";
import { LABEL_REPLICA, LABEL_SERVICE } from "../../../src/api/group.ts";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { EndpointSlice } from "../../../src/kube/objects.ts";
import type { Node, Pod } from "../../../src/kube/workload-objects.ts";
import { HOSTS, nodeNames, servicesWith } from "../plan/catalog.ts";
import { isReady, readyPods } from "./cluster.ts";

export interface FleetView {
  readonly hosts: readonly Host[];
  readonly services: readonly InferenceService[];
  readonly replicas: readonly InferenceReplica[];
  readonly slices: readonly EndpointSlice[];
  readonly engines: readonly { readonly uid: string; readonly pid: number; readonly host: string }[];
  readonly pods: readonly Pod[];
  /** Also of what has no kubelet. */
  readonly nodes: readonly Node[];
  /** How many have one. */
  readonly nodeCount: number;
  /** Where each host really is. */
  readonly addresses: ReadonlyMap<string, string>;
}

/** One sentence for each thing that is not as it should be; empty when all is well. */
export function whyNotConverged(view: FleetView): readonly string[] {
  return [
    ...HOSTS.flatMap((name) => hostReasons(view, name)),
    ...nodeNames(view.nodeCount).flatMap((name) => nodeReasons(view, name)),
    ...servicesWith(view.nodeCount).flatMap((name) => serviceReasons(view, name)),
    ...view.engines
      .filter(({ uid }) => ![...view.replicas, ...view.pods].some(({ metadata }) => metadata.uid === uid))
      .map(({ uid, pid, host }) => `engine ${pid} on ${host} runs for replica ${uid}, which is no more`),
  ];
}

function hostReasons({ hosts }: FleetView, name: string): readonly string[] {
  const host = hosts.find(({ metadata }) => metadata.name === name);
  if (host === undefined) return [`there is no Host ${name}`];
  const reasons: string[] = [];
  for (const [type, wanted] of [
    ["Reachable", "True"],
    ["Lost", "False"],
    ["Ready", "True"],
  ] as const) {
    const { status, reason } = getCondition(host.status?.conditions ?? [], type) ?? {};
    if (status !== wanted) reasons.push(`Host ${name}: ${type} is ${status ?? "absent"} (${reason ?? ""})`);
  }
  return reasons;
}

function nodeReasons({ nodes }: FleetView, name: string): readonly string[] {
  const node = nodes.find(({ metadata }) => metadata.name === name);
  const { taints = [] } = node?.spec ?? {};
  if (taints.length > 0) return [`node ${name} has taints: ${JSON.stringify(taints)}`];
  return isReady(node?.status?.conditions) ? [] : [`node ${name} is not Ready`];
}

function serviceReasons(view: FleetView, name: string): readonly string[] {
  const service = view.services.find(({ metadata }) => metadata.name === name);
  if (service === undefined) return [`there is no service ${name}`];
  const { metadata, spec, status } = service;
  if (metadata.deletionTimestamp !== undefined) return [`service ${name} is still being deleted`];
  const reasons: string[] = [];
  const replicas = view.replicas.filter(({ spec: { template } }) => template.serviceName === name);
  if (status?.observedGeneration !== metadata.generation)
    reasons.push(`service ${name} is not reconciled yet`);
  if (status?.phase !== "Ready") {
    reasons.push(`service ${name} is ${status?.phase} (${status?.reason}: ${status?.message})`);
  }
  if (status?.readyReplicas !== spec.replicas) {
    reasons.push(`service ${name} says ${status?.readyReplicas} of ${spec.replicas} ready`);
  }
  const pods = view.pods.filter(({ metadata: { labels } }) => labels?.[LABEL_SERVICE] === name);
  if (replicas.length + pods.length !== spec.replicas) {
    const has = `${replicas.length} replicas and ${pods.length} pods`;
    reasons.push(`service ${name} has ${has} and wants ${spec.replicas}`);
  }
  const ready = [...readyPods(view.slices, name)].sort().join();
  const all = pods.map(({ metadata }) => metadata.name).sort();
  if (ready !== all.join()) reasons.push(`service ${name} has the pods ${all} and endpoints of ${ready}`);
  const revisions = new Set(replicas.map(({ spec: { template } }) => template.revision));
  if (revisions.size > 1) reasons.push(`service ${name} has replicas of ${revisions.size} revisions`);
  return [
    ...reasons,
    ...replicas.flatMap((replica) => replicaReasons(view, replica)),
    ...pods.flatMap((pod) => podReasons(view, pod)),
  ];
}

function podReasons({ engines }: FleetView, { metadata, spec, status }: Pod): readonly string[] {
  const called = `pod ${metadata.name} on ${spec.nodeName}`;
  if (metadata.deletionTimestamp !== undefined) return [`${called} is still being deleted`];
  if (metadata.ownerReferences?.[0]?.kind !== "ReplicaSet") return [`${called} has no owner`];
  if (!isReady(status?.conditions)) return [`${called} is not Ready`];
  const own = engines.filter(({ uid }) => uid === metadata.uid);
  return own.length === 1 ? [] : [`${called} has ${own.length} engines`];
}

function replicaReasons(view: FleetView, { metadata, spec, status }: InferenceReplica): readonly string[] {
  const { hostName } = spec.template;
  const called = `replica ${metadata.name} on ${hostName}`;
  if (metadata.deletionTimestamp !== undefined)
    return [`${called} is still being deleted (${status?.phase})`];
  if (status?.phase !== "Ready") {
    return [
      `${called} is ${status?.phase ?? "not seen by its agent"} (${status?.reason}: ${status?.message})`,
    ];
  }
  const reachable = getCondition(status.conditions ?? [], "HostReachable")?.status;
  if (reachable !== "True") return [`${called}: HostReachable is ${reachable ?? "absent"}`];
  const engines = view.engines.filter(({ uid }) => uid === metadata.uid);
  if (engines.length !== 1 || engines[0]?.pid !== status.pid) {
    const pids = engines.map(({ pid }) => pid).join(", ");
    return [`${called} says pid ${status.pid}, and its engines are ${pids || "none"}`];
  }
  return sliceReasons(view, called, metadata.name, view.addresses.get(hostName) ?? "");
}

function sliceReasons(view: FleetView, called: string, replica: string, address: string): readonly string[] {
  const slice = view.slices.find(({ metadata }) => metadata.labels?.[LABEL_REPLICA] === replica);
  const [endpoint] = slice?.endpoints ?? [];
  if (endpoint === undefined) return [`${called} has no endpoint`];
  if (endpoint.conditions?.ready !== true) return [`${called}: its endpoint is not ready`];
  return endpoint.addresses[0] === address
    ? []
    : [`${called}: its endpoint is ${endpoint.addresses[0]}, and the host is at ${address}`];
}
