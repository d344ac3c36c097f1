/** Changes of the watched objects, for parts that follow single objects. */
import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { Model } from "../../src/api/model.ts";
import type { ConfigMap, Lease } from "../../src/kube/objects.ts";
import type { KubeObject } from "../../src/kube/types.ts";
import type { Node, Pod, ResourceSlice } from "../../src/kube/workload-objects.ts";

interface Change<K extends string, T extends KubeObject> {
  readonly kind: K;
  /** `namespace/name`, or `name` for cluster-scoped objects. */
  readonly key: string;
  /** Undefined if the object was deleted. */
  readonly after: T | undefined;
  /** Undefined if the object is new. */
  readonly before: T | undefined;
}

/** `kind` is that of the object. */
export type ClusterChange =
  | Change<"Host", Host>
  | Change<"Lease", Lease>
  | Change<"Node", Node>
  | Change<"ConfigMap", ConfigMap>
  | Change<"InferenceReplica", InferenceReplica>
  | Change<"Pod", Pod>
  | Change<"InferenceService", InferenceService>
  | Change<"Model", Model>
  | Change<"ResourceSlice", ResourceSlice>;

export interface ClusterChanges {
  readonly emit: (change: ClusterChange) => void;
  /** Calls the listener after each change, when the density state has it. */
  readonly listen: (listener: (change: ClusterChange) => void) => void;
}

export function createClusterChanges(): ClusterChanges {
  const listeners: ((change: ClusterChange) => void)[] = [];
  return {
    emit: (change) => {
      for (const listener of listeners) listener(change);
    },
    listen: (listener) => void listeners.push(listener),
  };
}
