/** What a pass over a service may do. Every step is safe to repeat. */
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { ControllerRevision, EndpointSlice, Service } from "../../../src/kube/objects.ts";
import type { JsonPatchOp } from "../../../src/kube/types.ts";
import type {
  Deployment,
  HorizontalPodAutoscaler,
  NetworkPolicy,
  PodDisruptionBudget,
  PodMonitor,
} from "../../../src/kube/workload-objects.ts";

/** Objects that a service owns, by what they are. */
export interface Owned {
  readonly replica: InferenceReplica;
  readonly slice: EndpointSlice;
  readonly kubeService: Service;
  readonly revision: ControllerRevision;
  readonly deployment: Deployment;
  readonly autoscaler: HorizontalPodAutoscaler;
  readonly disruptionBudget: PodDisruptionBudget;
  readonly networkPolicy: NetworkPolicy;
  readonly podMonitor: PodMonitor;
}

export type OwnedKind = keyof Owned;

type OnOwned<K extends OwnedKind> =
  /** Makes the object, or restores what it says in one that is ours; what others have added stays. */
  | {
      readonly do: "apply";
      readonly what: K;
      readonly object: Owned[K];
      readonly current: Owned[K] | undefined;
    }
  | { readonly do: "create"; readonly what: K; readonly object: Owned[K] }
  | {
      readonly do: "patch";
      readonly what: K;
      readonly object: Owned[K];
      readonly operations: readonly JsonPatchOp[];
      readonly because: string;
    }
  | { readonly do: "remove"; readonly what: K; readonly object: Owned[K]; readonly because: string };

export type ServiceStep =
  | { readonly do: "addFinalizer"; readonly service: InferenceService }
  | { readonly do: "removeFinalizer"; readonly service: InferenceService }
  | { [K in OwnedKind]: OnOwned<K> }[OwnedKind];
