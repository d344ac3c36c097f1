/** Objects by what they refer to: replicas by host, pods by node, services by Model. */
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { keyOf } from "../../../src/api/names.ts";
import type { KubeObject, Reflector } from "../../../src/kube/types.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import type { ClusterChange } from "../../cluster/changes.ts";
import type { ClusterWatches } from "../../cluster/cluster.ts";
import { modelKeysOf, prefetchedOn, serviceOfPod, serviceOfReplica } from "./topics.ts";

export type ObjectReads = {
  readonly [K in "nodes" | "hosts" | "replicas" | "pods" | "services" | "models"]: Pick<
    ClusterWatches[K],
    "get" | "list" | "isSynced" | "whenSynced" | "covers"
  >;
};

export interface Lookup {
  readonly replicasOn: (host: string) => readonly InferenceReplica[];
  /** Keys of services and Models are `namespace/name`. */
  readonly replicasOf: (service: string) => readonly InferenceReplica[];
  readonly podsOn: (node: string) => readonly Pod[];
  readonly podsOf: (service: string) => readonly Pod[];
  readonly servicesOf: (model: string) => readonly InferenceService[];
  readonly hostsPrefetching: (model: string) => readonly Host[];
  /** Must be called for each change. */
  readonly update: (change: ClusterChange) => void;
}

export function createLookup(reads: ObjectReads): Lookup {
  const replicasByHost = createIndex<InferenceReplica>(reads.replicas, ({ spec }) => [
    spec.template.hostName,
  ]);
  const replicasByService = createIndex<InferenceReplica>(reads.replicas, (one) => [serviceOfReplica(one)]);
  const podsByNode = createIndex<Pod>(reads.pods, ({ spec }) => [spec.nodeName ?? ""]);
  const podsByService = createIndex<Pod>(reads.pods, (pod) => [serviceOfPod(pod) ?? ""]);
  const servicesByModel = createIndex<InferenceService>(reads.services, modelKeysOf);
  const hostsByModel = createIndex<Host>(reads.hosts, prefetchedOn);
  return {
    replicasOn: replicasByHost.of,
    replicasOf: replicasByService.of,
    podsOn: podsByNode.of,
    podsOf: podsByService.of,
    servicesOf: servicesByModel.of,
    hostsPrefetching: hostsByModel.of,
    update: ({ kind, key, after }) => {
      if (kind === "InferenceReplica")
        for (const one of [replicasByHost, replicasByService]) one.set(key, after);
      if (kind === "Pod") for (const one of [podsByNode, podsByService]) one.set(key, after);
      if (kind === "InferenceService") servicesByModel.set(key, after);
      if (kind === "Host") hostsByModel.set(key, after);
    },
  };
}

interface Index<T> {
  readonly of: (name: string) => readonly T[];
  readonly set: (key: string, object: T | undefined) => void;
}

/** Keeps keys only; the reflector has the objects. */
function createIndex<T extends KubeObject>(
  { get, list }: Pick<Reflector<T>, "get" | "list">,
  namesOf: (object: T) => readonly string[],
): Index<T> {
  const keysOf = new Map<string, Set<string>>();
  const known = new Map<string, readonly string[]>();
  const set = (key: string, object: T | undefined): void => {
    const names = object === undefined ? [] : namesOf(object);
    for (const name of known.get(key) ?? []) {
      const keys = keysOf.get(name);
      keys?.delete(key);
      if (keys?.size === 0) keysOf.delete(name);
    }
    if (names.length === 0) known.delete(key);
    else known.set(key, names);
    for (const name of names) keysOf.set(name, (keysOf.get(name) ?? new Set()).add(key));
  };
  for (const object of list()) set(keyOf(object.metadata), object);
  return { of: (name) => [...(keysOf.get(name) ?? [])].flatMap((key) => get(key) ?? []), set };
}
