/** What a pass over a service may do. Every step is safe to repeat. */
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { ControllerRevision, EndpointSlice, Service } from "../../src/kube/objects.ts";
import type { JsonPatchOp } from "../../src/kube/types.ts";

/** Objects that a service owns, by what they are. */
export interface Owned {
  readonly replica: InferenceReplica;
  readonly slice: EndpointSlice;
  readonly kubeService: Service;
  readonly revision: ControllerRevision;
}

export type OwnedKind = keyof Owned;

type OnOwned<K extends OwnedKind> =
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
