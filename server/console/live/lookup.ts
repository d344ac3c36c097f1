/** Objects by what they refer to: replicas by host, pods by node, services by Model. */
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { createGrouping } from "../../../src/cluster/grouping.ts";
import type { ClusterChange } from "../../../src/cluster/informers.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
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
  /** Must be called for each change from the start of the watches. */
  readonly update: (change: ClusterChange) => void;
}

export function createLookup(): Lookup {
  const replicasByHost = createGrouping<InferenceReplica>(({ spec }) => [spec.template.hostName]);
  const replicasByService = createGrouping<InferenceReplica>((replica) => [serviceOfReplica(replica)]);
  const podsByNode = createGrouping<Pod>(({ spec }) => [spec.nodeName ?? ""]);
  const podsByService = createGrouping<Pod>((pod) => [serviceOfPod(pod) ?? ""]);
  const servicesByModel = createGrouping<InferenceService>(modelKeysOf);
  const hostsByModel = createGrouping<Host>(prefetchedOn);
  return {
    replicasOn: replicasByHost.of,
    replicasOf: replicasByService.of,
    podsOn: podsByNode.of,
    podsOf: podsByService.of,
    servicesOf: servicesByModel.of,
    hostsPrefetching: hostsByModel.of,
    update: ({ name, key, after, before }) => {
      if (name === "replicas")
        for (const one of [replicasByHost, replicasByService]) one.note(key, after, before);
      if (name === "pods") for (const one of [podsByNode, podsByService]) one.note(key, after, before);
      if (name === "services") servicesByModel.note(key, after, before);
      if (name === "hosts") hostsByModel.note(key, after, before);
    },
  };
}
