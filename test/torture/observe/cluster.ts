/** What the cluster says, by watches of the harness's own: each change of what matters is one event. */
import { getCondition } from "../../../src/api/conditions.ts";
import { LABEL_HOST, LABEL_REPLICA, LABEL_SERVICE } from "../../../src/api/group.ts";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES } from "../../../src/api/kinds.ts";
import type { KubeConnection } from "../../../src/kube/client/connect.ts";
import { ENDPOINT_SLICES, NODES, PODS } from "../../../src/kube/kinds.ts";
import type { Endpoint, EndpointSlice } from "../../../src/kube/objects.ts";
import { systemClock } from "../../../src/kube/system-clock.ts";
import type { KubeObject, Reflector } from "../../../src/kube/types.ts";
import { startReflector } from "../../../src/kube/watch/reflector.ts";
import type { Node, Pod, StatusCondition } from "../../../src/kube/workload-objects.ts";
import { quietLog } from "../../cluster/quiet-log.ts";
import type { Recorder } from "./recorder.ts";
import type { NewEvent } from "./recording.ts";

export interface ClusterWatch {
  readonly replicas: Reflector<InferenceReplica>;
  readonly slices: Reflector<EndpointSlice>;
  readonly services: Reflector<InferenceService>;
  readonly hosts: Reflector<Host>;
  readonly pods: Reflector<Pod>;
  readonly nodes: Reflector<Node>;
}

/** Resolves when everything was listed once. */
export async function watchCluster(
  recorder: Recorder,
  connection: KubeConnection,
  signal: AbortSignal,
): Promise<ClusterWatch> {
  const shared = { connection, signal, clock: systemClock, log: quietLog };
  const last = new Map<string, string>();
  const noting =
    <T extends KubeObject>(toEvents: (object: T, isGone: boolean, before?: T) => readonly NewEvent[]) =>
    (_key: string, object: T | undefined, before: T | undefined): void => {
      const known = object ?? before;
      if (known === undefined) return;
      for (const event of toEvents(known, object === undefined, before)) {
        const text = JSON.stringify(event);
        const key = `${event.type}/${known.metadata.uid}/${event.type === "slice" ? event.replica : ""}`;
        if (last.get(key) === text) continue;
        last.set(key, text);
        recorder.note(event);
      }
    };
  const watch: ClusterWatch = {
    replicas: startReflector({ ...shared, kind: INFERENCE_REPLICAS, onChange: noting(one(replicaEvent)) }),
    slices: startReflector({ ...shared, kind: ENDPOINT_SLICES, onChange: noting(sliceEvents) }),
    services: startReflector({ ...shared, kind: INFERENCE_SERVICES, onChange: noting(one(serviceEvent)) }),
    hosts: startReflector({ ...shared, kind: HOSTS, onChange: noting(one(hostEvent)) }),
    pods: startReflector({
      ...shared,
      kind: PODS,
      labelSelector: LABEL_SERVICE,
      onChange: noting(one(podEvent)),
    }),
    nodes: startReflector({ ...shared, kind: NODES, onChange: () => {} }),
  };
  await Promise.all(Object.values(watch).map((one) => one.whenSynced()));
  return watch;
}

function one<T>(toEvent: (object: T, isGone: boolean) => NewEvent) {
  return (object: T, isGone: boolean): readonly NewEvent[] => [toEvent(object, isGone)];
}

function replicaEvent({ metadata, spec, status }: InferenceReplica, isGone: boolean): NewEvent {
  return {
    type: "replica",
    name: metadata.name,
    uid: metadata.uid ?? "",
    service: spec.template.serviceName,
    host: spec.template.hostName,
    revision: spec.template.revision,
    isDeleting: metadata.deletionTimestamp !== undefined,
    isGone,
    phase: status?.phase ?? "",
    reason: status?.reason ?? "",
    message: status?.message ?? "",
    hostReachable: getCondition(status?.conditions ?? [], "HostReachable")?.status ?? "",
    pid: status?.pid === undefined ? undefined : status.pid,
  };
}

/** Kubernetes makes slices of its own for the pods of every Service; they are empty where it runs on hosts. */
function sliceEvents(slice: EndpointSlice, isGone: boolean, before?: EndpointSlice): readonly NewEvent[] {
  const labels = slice.metadata.labels ?? {};
  const service = labels[LABEL_SERVICE];
  if (service === undefined) return [];
  return labels[LABEL_REPLICA] === undefined
    ? podEndpoints(slice, isGone, before).map((event) => ({ ...event, service }))
    : [replicaEndpoint(slice, service, isGone)];
}

/** One that is no longer in the slice is gone. */
function podEndpoints(slice: EndpointSlice, isGone: boolean, before?: EndpointSlice) {
  const port = slice.ports?.[0]?.port;
  const now = new Map(isGone ? [] : endpointsOf(slice).map((endpoint) => [nameOf(endpoint), endpoint]));
  const all = new Map([...endpointsOf(before), ...now.values()].map((one) => [nameOf(one), one]));
  return [...all].map(([replica, { addresses, nodeName = "", conditions }]) => ({
    type: "slice" as const,
    name: slice.metadata.name,
    replica,
    host: nodeName,
    endpoint: `${addresses[0]}:${port}`,
    isServing: now.has(replica) && conditions?.ready === true,
    isGone: !now.has(replica),
  }));
}

type PodEndpoint = Endpoint & {
  readonly nodeName?: string;
  readonly targetRef?: { readonly name?: string };
};

function endpointsOf(slice: EndpointSlice | undefined): readonly PodEndpoint[] {
  return slice?.endpoints ?? [];
}

function nameOf({ targetRef }: PodEndpoint): string {
  return targetRef?.name ?? "";
}

/** Names of the pods that new connections are sent to. */
export function readyPods(slices: readonly EndpointSlice[], service: string): readonly string[] {
  return slices
    .filter(
      ({ metadata: { labels } }) =>
        labels?.[LABEL_SERVICE] === service && labels[LABEL_REPLICA] === undefined,
    )
    .flatMap(endpointsOf)
    .filter(({ conditions }) => conditions?.ready === true)
    .map(nameOf);
}

function replicaEndpoint(slice: EndpointSlice, service: string, isGone: boolean): NewEvent {
  const labels = slice.metadata.labels ?? {};
  const [first] = slice.endpoints ?? [];
  const address = first?.addresses[0];
  const port = slice.ports?.[0]?.port;
  const { ready, serving, terminating } = first?.conditions ?? {};
  return {
    type: "slice",
    name: slice.metadata.name,
    service,
    replica: labels[LABEL_REPLICA] ?? "",
    host: labels[LABEL_HOST] ?? "",
    endpoint: address === undefined || port === undefined ? undefined : `${address}:${port}`,
    isServing:
      !isGone && first !== undefined && (ready !== false || (serving !== false && terminating === true)),
    isGone,
  };
}

function podEvent({ metadata, spec, status }: Pod, isGone: boolean): NewEvent {
  return {
    type: "pod",
    name: metadata.name,
    uid: metadata.uid ?? "",
    service: metadata.labels?.[LABEL_SERVICE] ?? "",
    node: spec.nodeName ?? "",
    phase: status?.phase ?? "",
    isReady: isReady(status?.conditions),
    isDeleting: metadata.deletionTimestamp !== undefined,
    isGone,
  };
}

/** True if a pod or a node is ready. */
export function isReady(conditions: readonly StatusCondition[] = []): boolean {
  return conditions.some(({ type, status }) => type === "Ready" && status === "True");
}

function serviceEvent({ metadata, spec, status }: InferenceService, isGone: boolean): NewEvent {
  return {
    type: "service",
    name: metadata.name,
    uid: metadata.uid ?? "",
    isGone,
    isDeleting: metadata.deletionTimestamp !== undefined,
    phase: status?.phase ?? "",
    reason: status?.reason ?? "",
    message: status?.message ?? "",
    wanted: spec.replicas,
    ready: status?.readyReplicas ?? 0,
    isObserved: status?.observedGeneration === metadata.generation,
  };
}

function hostEvent({ metadata, status }: Host): NewEvent {
  const reachable = getCondition(status?.conditions ?? [], "Reachable");
  return {
    type: "host",
    name: metadata.name,
    reachable: reachable?.status ?? "",
    reason: reachable?.reason ?? "",
    lost: getCondition(status?.conditions ?? [], "Lost")?.status ?? "",
  };
}
