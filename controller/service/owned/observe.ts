/**
 * What the watches have of one service: the service itself, what it owns, and what earlier services of its
 * name left.
 */
import { LABEL_REPLICA, LABEL_REVISION, LABEL_SERVICE_UID } from "../../../src/api/group.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { revisionName, serviceName, sliceName } from "../../../src/api/names.ts";
import type { ControllerRevision, EndpointSlice, Service } from "../../../src/kube/objects.ts";
import type { KubeObject } from "../../../src/kube/types.ts";
import type {
  Deployment,
  HorizontalPodAutoscaler,
  NetworkPolicy,
  Pod,
  PodDisruptionBudget,
  PodMonitor,
} from "../../../src/kube/workload-objects.ts";
import type { Watches } from "../../watches/watches.ts";

/** What belongs to one uid of a service. */
export interface OwnedObjects {
  readonly replicas: readonly InferenceReplica[];
  readonly slices: readonly EndpointSlice[];
  readonly kubeServices: readonly Service[];
  readonly revisions: readonly ControllerRevision[];
  readonly deployments: readonly Deployment[];
  readonly autoscalers: readonly HorizontalPodAutoscaler[];
  readonly disruptionBudgets: readonly PodDisruptionBudget[];
  readonly networkPolicies: readonly NetworkPolicy[];
  readonly podMonitors: readonly PodMonitor[];
  /** Of the Deployment; never removed by the controller itself. */
  readonly pods: readonly Pod[];
}

export const NO_OWNED_OBJECTS: OwnedObjects = {
  replicas: [],
  slices: [],
  kubeServices: [],
  revisions: [],
  deployments: [],
  autoscalers: [],
  disruptionBudgets: [],
  networkPolicies: [],
  podMonitors: [],
  pods: [],
};

export interface ObservedService {
  readonly service?: InferenceService | undefined;
  readonly own: OwnedObjects;
  /** Objects with the service's name and another uid, by that uid. */
  readonly strays: ReadonlyMap<string, OwnedObjects>;
}

/** Reads only the watches, never the API server. */
export function observeService(watches: Watches, key: string): ObservedService {
  const service = watches.services.get(key);
  const uid = service?.metadata.uid;
  const [, name = ""] = key.split("/");
  const hasOurName = (object: KubeObject) => hasNameOf(name, object);
  const all = {
    replicas: watches.replicasOfService.of(key),
    slices: watches.slicesOfService.of(key).filter(hasOurName),
    kubeServices: watches.kubeServicesOfService.of(key).filter(hasOurName),
    revisions: watches.revisionsOfService.of(key).filter(hasOurName),
    deployments: watches.deploymentsOfService.of(key).filter(hasOurName),
    autoscalers: watches.autoscalersOfService.of(key).filter(hasOurName),
    disruptionBudgets: watches.disruptionBudgetsOfService.of(key).filter(hasOurName),
    networkPolicies: watches.networkPoliciesOfService.of(key).filter(hasOurName),
    podMonitors: watches.podMonitorsOfService.of(key).filter(hasOurName),
    pods: watches.podsOfService.of(key),
  };
  const { replicas, pods: _pods, ...labelled } = all;
  const uids = new Set([
    ...replicas.map(({ spec }) => spec.template.serviceUid),
    ...Object.values(labelled).flat().map(ownerUid),
  ]);
  const strays = new Map<string, OwnedObjects>();
  for (const other of uids) if (other !== uid && other !== "") strays.set(other, belongingsOf(all, other));
  return { service, own: belongingsOf(all, uid), strays };
}

/** Labels are copied by `kubectl expose` and by hand, names are not: an object of ours has both. */
export function hasNameOf(service: string, { metadata }: KubeObject): boolean {
  const { [LABEL_REPLICA]: replica, [LABEL_REVISION]: revision } = metadata.labels ?? {};
  if (replica !== undefined) return metadata.name === sliceName(replica);
  if (revision !== undefined) return metadata.name === revisionName(service, revision);
  return metadata.name === serviceName(service);
}

function belongingsOf(all: OwnedObjects, uid: string | undefined): OwnedObjects {
  if (uid === undefined) return NO_OWNED_OBJECTS;
  const isOwn = (object: KubeObject) => ownerUid(object) === uid;
  return {
    replicas: all.replicas.filter(({ spec }) => spec.template.serviceUid === uid),
    slices: all.slices.filter(isOwn),
    kubeServices: all.kubeServices.filter(isOwn),
    revisions: all.revisions.filter(isOwn),
    deployments: all.deployments.filter(isOwn),
    autoscalers: all.autoscalers.filter(isOwn),
    disruptionBudgets: all.disruptionBudgets.filter(isOwn),
    networkPolicies: all.networkPolicies.filter(isOwn),
    podMonitors: all.podMonitors.filter(isOwn),
    pods: all.pods.filter(isOwn),
  };
}

function ownerUid({ metadata }: KubeObject): string {
  return metadata.labels?.[LABEL_SERVICE_UID] ?? "";
}
