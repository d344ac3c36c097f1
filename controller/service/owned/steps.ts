/** What a pass over a service may do. Every step is safe to repeat. */
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { JsonPatchOp } from "../../../src/kube/types.ts";
import type { Owned, OwnedKind } from "./kinds.ts";

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
