/** Finds the object that a user named. The error for a missing object names the namespaces that have one. */

import { type ErrorCode, MetalbridgeError, type Remedy } from "../../src/api/errors.ts";
import type { Kind, KubeObject, ListOptions } from "../../src/kube/types.ts";
import type { Cluster } from "./cluster.ts";
import { explainAttempt, unwrapResult } from "./failure.ts";

const NOT_FOUND: Readonly<Record<string, ErrorCode>> = {
  Host: "HostNotFound",
  InferenceReplica: "ReplicaNotFound",
  InferenceService: "ServiceNotFound",
  Model: "ModelNotFound",
};

/** Throws HostNotFound, ReplicaNotFound, ServiceNotFound or ModelNotFound. */
export async function findObject<T extends KubeObject>(
  cluster: Cluster,
  kind: Kind<T>,
  name: string,
): Promise<T> {
  return (await findIfPresent(cluster, kind, name)) ?? notFound(cluster, kind, name);
}

/** Undefined if the namespace has no such object. */
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

/** All objects of a kind that the options select. */
export async function listAll<T extends KubeObject>(
  { client }: Cluster,
  kind: Kind<T>,
  options: ListOptions = {},
): Promise<readonly T[]> {
  const result = await client.list(kind, options);
  return unwrapResult({ verb: "list", kind, namespace: options.namespace }, result).items;
}

/** Throws the error of a missing object. `otherwise` is the remedy if no other namespace that may be read has one. */
export async function notFound<T extends KubeObject>(
  { client, namespace }: Cluster,
  kind: Kind<T>,
  name: string,
  otherwise?: Remedy,
): Promise<never> {
  const code = NOT_FOUND[kind.kind] ?? "ApiObjectNotFound";
  if (!kind.namespaced) throw new MetalbridgeError(code, `there is no ${kind.kind} ${name}`, otherwise);
  const all = await client.list(kind, { fieldSelector: `metadata.name=${name}` });
  const places = all.ok ? all.value.items.map(({ metadata }) => metadata.namespace ?? "").sort() : [];
  const remedy = {
    summary: `there is one in ${places.join(", ")}: name the namespace`,
    command: `-n ${places[0]}`,
  };
  const message = `there is no ${kind.kind} ${name} in namespace ${namespace}`;
  throw new MetalbridgeError(code, message, places.length > 0 ? remedy : otherwise);
}
