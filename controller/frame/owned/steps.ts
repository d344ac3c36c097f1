/** The steps of a pass over a service. Each step is safe to repeat. */

import { FINALIZER_SERVICE } from "../../../src/api/group.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { JsonPatchOp } from "../../../src/kube/types.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import type { Owned, OwnedKind } from "./kinds.ts";

/** The reason of a step, which `--dry-run` prints. */
export interface Because {
  readonly because: string;
}

type OnOwned<K extends OwnedKind> =
  /** Creates the object, or restores our fields of an existing one. Fields of other clients stay. */
  | {
      readonly do: "apply";
      readonly what: K;
      readonly object: Owned[K];
      readonly current: Owned[K] | undefined;
    }
  | { readonly do: "create"; readonly what: K; readonly object: Owned[K] }
  | { readonly do: "remove"; readonly what: K; readonly object: Owned[K] }
  | {
      readonly do: "patch";
      readonly what: K;
      readonly object: Owned[K];
      readonly operations: readonly JsonPatchOp[];
    };

export type ServiceStep = Because &
  (
    | { readonly do: "addFinalizer" | "removeFinalizer"; readonly service: InferenceService }
    | { [K in OwnedKind]: OnOwned<K> }[OwnedKind]
  );

/** A step on a pod of the service. `fallback` is sent if the server rejects the operations. */
export type PodStep = Because & { readonly pod: Pod } & (
    | (Record<"operations" | "fallback", readonly JsonPatchOp[]> & { readonly do: "releasePod" })
    | { readonly do: "replacePod" }
  );

export type PathStep = ServiceStep | PodStep;

/** Before everything that the finalizer cleans up. Empty if the service has it. */
export function stepsOfFinalizer(service: InferenceService): ServiceStep[] {
  if (service.metadata.finalizers?.includes(FINALIZER_SERVICE) === true) return [];
  return [{ do: "addFinalizer", service, because: "its objects must be removed before the service is" }];
}
