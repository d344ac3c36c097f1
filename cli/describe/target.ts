/** Finds the replica, service or host that a name refers to. */

import { MetalbridgeError } from "../../src/api/errors.ts";
import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { findIfPresent, findObject, notFound } from "../cluster/find.ts";
import { splitKind } from "../cluster/kinds.ts";

export interface TargetName {
  readonly kind: "replica" | "service" | "host" | "either";
  readonly name: string;
}

export type DescribeTarget =
  | { readonly kind: "replica"; readonly replica: InferenceReplica }
  | { readonly kind: "service"; readonly service: InferenceService }
  | { readonly kind: "host"; readonly host: Host };

/** `chat`, `irep/chat-0-abc`, `isvc/chat`, `host/mini-1`. Pure. */
export function parseDescribeTarget(text: string): TargetName {
  const { kind, name = text } = splitKind(text) ?? {};
  if (kind === INFERENCE_REPLICAS) return { kind: "replica", name };
  if (kind === INFERENCE_SERVICES) return { kind: "service", name };
  if (kind === HOSTS) return { kind: "host", name };
  return { kind: "either", name: text };
}

/** Throws ReplicaNotFound, ServiceNotFound, HostNotFound or NameAmbiguous. */
export async function findDescribeTarget(
  cluster: Cluster,
  { kind, name }: TargetName,
): Promise<DescribeTarget> {
  if (kind === "replica") return { kind, replica: await findObject(cluster, INFERENCE_REPLICAS, name) };
  if (kind === "service") return { kind, service: await findObject(cluster, INFERENCE_SERVICES, name) };
  if (kind === "host") return { kind, host: await findObject(cluster, HOSTS, name) };
  const [replica, service] = await Promise.all([
    findIfPresent(cluster, INFERENCE_REPLICAS, name),
    findIfPresent(cluster, INFERENCE_SERVICES, name),
  ]);
  if (replica !== undefined && service !== undefined) {
    throw new MetalbridgeError("NameAmbiguous", `${name} is a replica and a service`, {
      summary: "name the kind",
      command: `metalbridge describe irep/${name} -n ${cluster.namespace}`,
    });
  }
  if (replica !== undefined) return { kind: "replica", replica };
  if (service !== undefined) return { kind: "service", service };
  // Names of replicas end with an ordinal and a hash.
  return /-\d+-[0-9a-z]{8,}$/.test(name)
    ? notFound(cluster, INFERENCE_REPLICAS, name)
    : notFound(cluster, INFERENCE_SERVICES, name);
}
