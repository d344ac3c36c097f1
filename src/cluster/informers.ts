/** Kinds and selectors of the watches of the cluster. Every program starts those that it needs, and all its parts share them. */
import { LABEL_NODE_REPORT, LABEL_SERVICE_UID, NAMESPACE_HOSTS, NAMESPACE_SYSTEM } from "../api/group.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../api/kinds.ts";
import { BENCHMARKS_NAME } from "../capacity/benchmark/table.ts";
import { CONFIG_MAPS, LEASES, NODES, PODS, RESOURCE_SLICES } from "../kube/kinds.ts";
import type { Kind, KubeObject, ListOptions } from "../kube/types.ts";

type Selection = ListOptions & {
  readonly kind: Kind<KubeObject>;
  readonly pageSize?: number;
  readonly isOptional?: boolean;
};

/** A Node has 25 KB: a page of the usual size is 12 MB of text, and as many of objects. */
const NODES_PER_PAGE = 100;

export const INFORMERS = {
  nodes: { kind: NODES, pageSize: NODES_PER_PAGE },
  /** Reports that nodes publish. */
  reports: { kind: CONFIG_MAPS, namespace: NAMESPACE_SYSTEM, labelSelector: LABEL_NODE_REPORT },
  /** The ConfigMap with measured speeds. */
  benchmarks: {
    kind: CONFIG_MAPS,
    namespace: NAMESPACE_SYSTEM,
    fieldSelector: `metadata.name=${BENCHMARKS_NAME}`,
  },
  hosts: { kind: HOSTS },
  /** Renewed by the agents of hosts. */
  leases: { kind: LEASES, namespace: NAMESPACE_HOSTS },
  replicas: { kind: INFERENCE_REPLICAS },
  /** Pods of our Deployments and groups only. */
  pods: { kind: PODS, labelSelector: LABEL_SERVICE_UID },
  services: { kind: INFERENCE_SERVICES },
  models: { kind: MODELS },
  /** Devices that drivers of dynamic resource allocation offer. Nothing waits for them: many clusters lack the kind. */
  slices: { kind: RESOURCE_SLICES, isOptional: true },
} as const satisfies Readonly<Record<string, Selection>>;

export type InformerName = keyof typeof INFORMERS;
export type ObjectOf<K extends InformerName> =
  (typeof INFORMERS)[K]["kind"] extends Kind<infer T> ? T : never;

export type ChangeOf<K extends InformerName> = K extends InformerName
  ? {
      readonly name: K;
      /** `namespace/name`, or `name` for cluster-scoped objects. */
      readonly key: string;
      /** Undefined if the object was deleted. */
      readonly after: ObjectOf<K> | undefined;
      /** Undefined if the object is new. */
      readonly before: ObjectOf<K> | undefined;
    }
  : never;
export type ClusterChange = ChangeOf<InformerName>;
