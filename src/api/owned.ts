/** Name, namespace and labels of objects that belong to a service. */
import { GROUP, LABEL_MODEL_FAMILY, LABEL_SERVICE, LABEL_SERVICE_UID } from "./group.ts";
import type { InferenceService } from "./inference-service/index.ts";
import type { Model } from "./model.ts";
import { serviceName } from "./names.ts";

export const MANAGED_BY = { "app.kubernetes.io/managed-by": "metalbridge" };

/** Labels of all objects of a service. */
export function ownerLabels({ metadata }: InferenceService): Record<string, string> {
  return { [LABEL_SERVICE]: metadata.name, [LABEL_SERVICE_UID]: metadata.uid ?? "" };
}

/** The label of the family of the service's main Model. It is in no selector and in no revision, so it may change. */
export function familyLabels(model: Model | undefined): Record<string, string> {
  const { familyName } = model?.spec ?? {};
  return familyName === undefined ? {} : { [LABEL_MODEL_FAMILY]: familyName };
}

/** Labels of all pods of a service. Workers of a group lack one of `ownerLabels`. */
export function podSelectorOf(service: InferenceService): Record<string, string> {
  const { [LABEL_SERVICE_UID]: uid = "", ...labels } = ownerLabels(service);
  return service.spec.group === undefined
    ? { ...labels, [LABEL_SERVICE_UID]: uid }
    : { [LABEL_SERVICE_UID]: uid };
}

/** Name and namespace of an object that belongs to a service. */
export function ownedObjectRef(
  { metadata }: InferenceService,
  name: string,
): { name: string; namespace: string } {
  return { name, namespace: metadata.namespace ?? "default" };
}

/** Labels and annotations that users cannot set on objects that Metalbridge owns. */
export function isOwnKey(key: string): boolean {
  return key.startsWith(`${GROUP}/`) || key in MANAGED_BY;
}

/** Metadata for an object with the name of the cluster Service. */
export function metadataOf(service: InferenceService) {
  return {
    ...ownedObjectRef(service, serviceName(service.metadata.name)),
    labels: { ...ownerLabels(service), ...MANAGED_BY },
  };
}
