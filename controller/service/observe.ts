/** What the copies hold of one service. */
import { LABEL_SERVICE_UID } from "../../src/api/group.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { KubeObject } from "../../src/kube/types.ts";
import type { Caches } from "../cache/caches.ts";
import type { Belongings, ServiceObserved } from "./plan/observed.ts";

export interface ServiceSeen {
  readonly service?: InferenceService | undefined;
  readonly own: Belongings;
  /** What carries the service's name and another uid, by that uid. */
  readonly strays: ReadonlyMap<string, Belongings>;
}

/** Reads the copies only; nothing is asked of the API server. */
export function seeService(caches: Caches, key: string): ServiceSeen {
  const service = caches.services.get(key);
  const uid = service?.metadata.uid;
  const all = {
    replicas: caches.replicasOfService.of(key),
    slices: caches.slicesOfService.of(key),
    kubeServices: caches.kubeServicesOfService.of(key),
    revisions: caches.revisionsOfService.of(key),
  };
  const uids = new Set([
    ...all.replicas.map(({ spec }) => spec.template.serviceUid),
    ...[...all.slices, ...all.kubeServices, ...all.revisions].map(ownerUid),
  ]);
  const strays = new Map<string, Belongings>();
  for (const other of uids) if (other !== uid && other !== "") strays.set(other, belongingsOf(all, other));
  return { service, own: belongingsOf(all, uid), strays };
}

/** A live service with everything that its plan reads. */
export function observeService(caches: Caches, service: InferenceService, own: Belongings): ServiceObserved {
  const { namespace } = service.metadata;
  const draftRef = service.spec.speculativeDecoding?.draftModelRef;
  const hosts = new Map(caches.hosts.list().map((host) => [host.metadata.name, host]));
  return {
    service,
    model: caches.models.get(`${namespace}/${service.spec.modelRef}`),
    draftModel: draftRef === undefined ? undefined : caches.models.get(`${namespace}/${draftRef}`),
    hosts,
    ...own,
  };
}

function belongingsOf(all: Belongings, uid: string | undefined): Belongings {
  if (uid === undefined) return { replicas: [], slices: [], kubeServices: [], revisions: [] };
  const isOwn = (object: KubeObject) => ownerUid(object) === uid;
  return {
    replicas: all.replicas.filter(({ spec }) => spec.template.serviceUid === uid),
    slices: all.slices.filter(isOwn),
    kubeServices: all.kubeServices.filter(isOwn),
    revisions: all.revisions.filter(isOwn),
  };
}

function ownerUid({ metadata }: KubeObject): string {
  return metadata.labels?.[LABEL_SERVICE_UID] ?? "";
}
