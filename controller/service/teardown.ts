/**
 * Teardown of a service: replicas first (their agents withdraw, drain and stop), then slices, Service,
 * revisions, then the finalizer. Pure.
 */
import { FINALIZER_SERVICE } from "../../src/api/group.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { KubeObject } from "../../src/kube/types.ts";
import type { Belongings } from "./observe.ts";
import type { ServiceStep } from "./steps.ts";

/** The same for a service that is being deleted and for leftovers of an unknown uid. */
export function planTeardown(
  belongings: Belongings,
  because: string,
  service?: InferenceService,
): ServiceStep[] {
  const { replicas, slices, kubeServices, revisions } = belongings;
  if (replicas.length > 0) {
    return replicas
      .filter(isStaying)
      .map((object): ServiceStep => ({ do: "remove", what: "replica", object, because }));
  }
  const steps: ServiceStep[] = [
    ...slices
      .filter(isStaying)
      .map((object): ServiceStep => ({ do: "remove", what: "slice", object, because })),
    ...kubeServices
      .filter(isStaying)
      .map((object): ServiceStep => ({ do: "remove", what: "kubeService", object, because })),
    ...revisions
      .filter(isStaying)
      .map((object): ServiceStep => ({ do: "remove", what: "revision", object, because })),
  ];
  const isHeld = service?.metadata.finalizers?.includes(FINALIZER_SERVICE) === true;
  if (steps.length === 0 && service !== undefined && isHeld) steps.push({ do: "removeFinalizer", service });
  return steps;
}

function isStaying({ metadata }: KubeObject): boolean {
  return metadata.deletionTimestamp === undefined;
}
