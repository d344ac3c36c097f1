/** Finds the object that a user means, or says why there is none and where it is instead. */

import { type ErrorCode, MetalbridgeError, type Remedy } from "../../src/api/errors.ts";
import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import type { Kind, KubeObject, ListOptions } from "../../src/kube/types.ts";
import type { Cluster } from "./cluster.ts";
import { explainAttempt } from "./failure.ts";

/** Throws ServiceNotFound. */
export async function findService(cluster: Cluster, name: string): Promise<InferenceService> {
  const found = await findIfPresent(cluster, INFERENCE_SERVICES, name);
  return found ?? notFound(cluster, INFERENCE_SERVICES, "ServiceNotFound", name);
}

/** Throws HostNotFound. */
export async function findHost(cluster: Cluster, name: string): Promise<Host> {
  const found = await findIfPresent(cluster, HOSTS, name);
  if (found !== undefined) return found;
  throw new MetalbridgeError("HostNotFound", `there is no Host ${name}`);
}

/** Throws ReplicaNotFound. */
export async function findReplica(cluster: Cluster, name: string): Promise<InferenceReplica> {
  const found = await findIfPresent(cluster, INFERENCE_REPLICAS, name);
  return found ?? notFound(cluster, INFERENCE_REPLICAS, "ReplicaNotFound", name);
}

/** Undefined where there is none in the namespace. */
export async function findIfPresent<T extends KubeObject>(
  { client, namespace }: Cluster,
  kind: Kind<T>,
  name: string,
): Promise<T | undefined> {
  const place = kind.namespaced ? { namespace } : {};
  const result = await client.get(kind, { name, ...place });
  if (result.ok) return result.value;
  if (result.error.kind === "notFound") return undefined;
  throw explainAttempt({ verb: "get", kind, name, ...place }, result.error);
}

/** All of a kind that the options select. */
export async function listAll<T extends KubeObject>(
  { client }: Cluster,
  kind: Kind<T>,
  options: ListOptions = {},
): Promise<readonly T[]> {
  const result = await client.list(kind, options);
  if (result.ok) return result.value.items;
  throw explainAttempt({ verb: "list", kind, namespace: options.namespace }, result.error);
}

/** Says where objects of that name are, as far as the credential lets us look; `otherwise` where there are none. */
export async function notFound<T extends KubeObject>(
  cluster: Cluster,
  kind: Kind<T>,
  code: ErrorCode,
  name: string,
  otherwise?: Remedy,
): Promise<never> {
  const message = `there is no ${kind.kind} ${name} in namespace ${cluster.namespace}`;
  throw new MetalbridgeError(code, message, (await whereElse(cluster, kind, name)) ?? otherwise);
}

async function whereElse<T extends KubeObject>(
  { client }: Cluster,
  kind: Kind<T>,
  name: string,
): Promise<Remedy | undefined> {
  const all = await client.list(kind, { fieldSelector: `metadata.name=${name}` });
  const places = all.ok ? all.value.items.map(({ metadata }) => metadata.namespace ?? "") : [];
  if (places.length === 0) return undefined;
  return {
    summary: `there is one in ${places.sort().join(", ")}: name the namespace`,
    command: `-n ${places[0]}`,
  };
}
