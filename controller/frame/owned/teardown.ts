/**
 * Plans the teardown of a service. Replicas, whose agents drain and stop them, the Deployment and its autoscaler come first, then
 * slices, Service, revisions and other kinds, and finally the finalizer. Pure.
 */
import { FINALIZER_SERVICE } from "../../../src/api/group.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import { type Owned, type OwnedKind, ownedKinds, ownedRow } from "./kinds.ts";
import type { OwnedObjects } from "./observe.ts";
import type { ServiceStep } from "./steps.ts";

/** For a service that is being deleted, and for the objects of an earlier service. */
export function planTeardown(
  owned: OwnedObjects,
  because: string,
  service?: InferenceService,
): ServiceStep[] {
  const isRunning = ownedKinds.some((what) => ownedRow(what).removed === "first" && owned[what].length > 0);
  const removable = ownedKinds.filter((what) => !isRunning || ownedRow(what).removed !== "last");
  const steps = removable.flatMap((what) => removals(what, owned[what], because));
  if (isRunning) return steps;
  if (steps.length === 0 && service?.metadata.finalizers?.includes(FINALIZER_SERVICE))
    steps.push({ do: "removeFinalizer", service, because });
  return steps;
}

/** Removes the objects that are not being deleted yet. */
export function removals<K extends OwnedKind>(
  what: K,
  objects: readonly Owned[K][],
  because: string,
): ServiceStep[] {
  return objects
    .filter((object) => !isBeingDeleted(object))
    .map((object) => ({ do: "remove", what, object, because }) as unknown as ServiceStep);
}
