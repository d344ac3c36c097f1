/** The steps of a pass over a service. Each step is safe to repeat. */
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { JsonPatchOp } from "../../../src/kube/types.ts";
import type { Owned, OwnedKind } from "./kinds.ts";

type OnOwned<K extends OwnedKind> =
  /** Creates the object, or restores our fields of an existing one. Fields of other clients stay. */
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
