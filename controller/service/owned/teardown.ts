/**
 * Teardown of a service: replicas first (their agents withdraw, drain and stop), with them the Deployment and what scales
 * it; then slices, Service, revisions and the rest, then the finalizer. Pure.
 */
import { FINALIZER_SERVICE } from "../../../src/api/group.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { KubeObject } from "../../../src/kube/types.ts";
import { type Owned, type OwnedKind, ownedKinds, ownedRow } from "./kinds.ts";
import type { OwnedObjects } from "./observe.ts";
import type { ServiceStep } from "./steps.ts";

/** The same for a service that is being deleted and for leftovers of an unknown uid. */
export function planTeardown(
  belongings: OwnedObjects,
  because: string,
  service?: InferenceService,
): ServiceStep[] {
  const isRunning = ownedKinds.some(
    (what) => ownedRow(what).removed === "first" && belongings[what].length > 0,
  );
  const due = ownedKinds.filter((what) => !isRunning || ownedRow(what).removed !== "last");
  const steps = due.flatMap((what) => removals(what, belongings[what], because));
  if (isRunning) return steps;
  const isHeld = service?.metadata.finalizers?.includes(FINALIZER_SERVICE) === true;
  if (steps.length === 0 && service !== undefined && isHeld) steps.push({ do: "removeFinalizer", service });
  return steps;
}

/** Of those that are not being deleted yet. */
export function removals<K extends OwnedKind>(
  what: K,
  objects: readonly Owned[K][],
  because: string,
): ServiceStep[] {
  return objects
    .filter(isStaying)
    .map((object) => ({ do: "remove", what, object, because }) as unknown as ServiceStep);
}

function isStaying({ metadata }: KubeObject): boolean {
  return metadata.deletionTimestamp === undefined;
}
