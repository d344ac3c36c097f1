/** Reads the objects for a description. Related objects may be missing. */

import { MetalbridgeError } from "../../src/api/errors.ts";
import { LABEL_SERVICE, LABEL_SERVICE_UID, NAMESPACE_HOSTS } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { mainModelOf } from "../../src/api/inference-service/roles.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import { EVENTS, LEASES, PODS } from "../../src/kube/kinds.ts";
import type { KubeEvent } from "../../src/kube/objects.ts";
import type { KubeObject } from "../../src/kube/types.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { findIfPresent, listAll } from "../cluster/find.ts";
import type { HostDetails } from "./host.ts";
import type { ReplicaFacts } from "./replica.ts";
import type { ServiceFacts } from "./service.ts";

export async function readReplicaFacts(cluster: Cluster, replica: InferenceReplica): Promise<ReplicaFacts> {
  const { hostName, serviceName } = replica.spec.template;
  const [service, host, events] = await Promise.all([
    ifAllowed(findIfPresent(cluster, INFERENCE_SERVICES, serviceName)),
    ifAllowed(findIfPresent(cluster, HOSTS, hostName)),
    eventsOf(cluster, replica),
  ]);
  const isOwner = service?.metadata.uid === replica.spec.template.serviceUid;
  return { replica, service: isOwner ? service : undefined, host, events };
}

export async function readServiceFacts(cluster: Cluster, service: InferenceService): Promise<ServiceFacts> {
  const { namespace } = cluster;
  const [replicas, pods, model, events] = await Promise.all([
    listAll(cluster, INFERENCE_REPLICAS, {
      namespace,
      labelSelector: `${LABEL_SERVICE}=${service.metadata.name}`,
    }),
    ifAllowed(
      listAll(cluster, PODS, { namespace, labelSelector: `${LABEL_SERVICE_UID}=${service.metadata.uid}` }),
    ),
    ifAllowed(findIfPresent(cluster, MODELS, mainModelOf(service.spec))),
    eventsOf(cluster, service),
  ]);
  const own = replicas.filter(({ spec }) => spec.template.serviceUid === service.metadata.uid);
  return { service, replicas: own, pods: pods ?? [], model, events };
}

export async function readHostFacts(cluster: Cluster, host: Host): Promise<HostDetails> {
  const { name } = host.metadata;
  const [lease, replicas, events] = await Promise.all([
    ifAllowed(findIfPresent({ ...cluster, namespace: NAMESPACE_HOSTS }, LEASES, name)),
    ifAllowed(listAll(cluster, INFERENCE_REPLICAS, { fieldSelector: `spec.template.hostName=${name}` })),
    eventsOf(cluster, host),
  ]);
  return { host, lease, replicas: replicas ?? "forbidden", events };
}

async function eventsOf(
  cluster: Cluster,
  { metadata }: KubeObject,
): Promise<readonly KubeEvent[] | "forbidden"> {
  // Events about objects without a namespace are in the namespace `default`.
  const { namespace = "default" } = metadata;
  const fieldSelector = `regarding.uid=${metadata.uid}`;
  return (await ifAllowed(listAll(cluster, EVENTS, { namespace, fieldSelector }))) ?? "forbidden";
}

async function ifAllowed<T>(read: Promise<T>): Promise<T | undefined> {
  try {
    return await read;
  } catch (error) {
    if (error instanceof MetalbridgeError && error.code === "ApiForbidden") return undefined;
    throw error;
  }
}
