/** What the cluster says, by watches of the harness's own: each change of what matters is one event. */
import { getCondition } from "../../../src/api/conditions.ts";
import { LABEL_HOST, LABEL_REPLICA, LABEL_SERVICE } from "../../../src/api/group.ts";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES } from "../../../src/api/kinds.ts";
import type { KubeConnection } from "../../../src/kube/client/connect.ts";
import { ENDPOINT_SLICES } from "../../../src/kube/kinds.ts";
import type { EndpointSlice } from "../../../src/kube/objects.ts";
import { systemClock } from "../../../src/kube/system-clock.ts";
import type { KubeObject, Reflector } from "../../../src/kube/types.ts";
import { startReflector } from "../../../src/kube/watch/reflector.ts";
import { quietLog } from "../../cluster/quiet-log.ts";
import type { Recorder } from "./recorder.ts";
import type { NewEvent } from "./recording.ts";

export interface ClusterWatch {
  readonly replicas: Reflector<InferenceReplica>;
  readonly slices: Reflector<EndpointSlice>;
  readonly services: Reflector<InferenceService>;
  readonly hosts: Reflector<Host>;
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
    <T extends KubeObject>(toEvent: (object: T, isGone: boolean) => NewEvent | undefined) =>
    (_key: string, object: T | undefined, before: T | undefined): void => {
      const known = object ?? before;
      const event = known === undefined ? undefined : toEvent(known, object === undefined);
      if (known === undefined || event === undefined) return;
      const text = JSON.stringify(event);
      const key = `${event.type}/${known.metadata.uid}`;
      if (last.get(key) === text) return;
      last.set(key, text);
      recorder.note(event);
    };
  const watch: ClusterWatch = {
    replicas: startReflector({ ...shared, kind: INFERENCE_REPLICAS, onChange: noting(replicaEvent) }),
    slices: startReflector({ ...shared, kind: ENDPOINT_SLICES, onChange: noting(sliceEvent) }),
    services: startReflector({ ...shared, kind: INFERENCE_SERVICES, onChange: noting(serviceEvent) }),
    hosts: startReflector({ ...shared, kind: HOSTS, onChange: noting(hostEvent) }),
  };
  await Promise.all(Object.values(watch).map((one) => one.whenSynced()));
  return watch;
}

export function replicaEvent({ metadata, spec, status }: InferenceReplica, isGone: boolean): NewEvent {
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
    ...(status?.pid === undefined ? {} : { pid: status.pid }),
  };
}

export function sliceEvent(slice: EndpointSlice, isGone: boolean): NewEvent | undefined {
  const labels = slice.metadata.labels ?? {};
  const service = labels[LABEL_SERVICE];
  // Kubernetes makes a slice of its own for every Service with a selector; it stays empty.
  if (service === undefined || labels[LABEL_REPLICA] === undefined) return undefined;
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
    ...(address === undefined || port === undefined ? {} : { endpoint: `${address}:${port}` }),
    isServing:
      !isGone && first !== undefined && (ready !== false || (serving !== false && terminating === true)),
    isGone,
  };
}

export function serviceEvent({ metadata, spec, status }: InferenceService, isGone: boolean): NewEvent {
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

export function hostEvent({ metadata, status }: Host): NewEvent {
  const reachable = getCondition(status?.conditions ?? [], "Reachable");
  return {
    type: "host",
    name: metadata.name,
    reachable: reachable?.status ?? "",
    reason: reachable?.reason ?? "",
    lost: getCondition(status?.conditions ?? [], "Lost")?.status ?? "",
  };
}
