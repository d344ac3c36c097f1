/** Object metadata and the address of a kind, as the API server defines them. */
import { z } from "zod";

export interface ObjectMeta {
  name: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  ownerReferences?: { apiVersion: string; kind: string; name: string; uid: string; controller?: boolean }[];
  managedFields?: { manager?: string; operation?: string; subresource?: string; fieldsV1?: unknown }[];
}

/** True if the API server waits for finalizers, or for a pod to stop, before it removes the object. */
export function isBeingDeleted({ metadata }: { readonly metadata: ObjectMeta }): boolean {
  return metadata.deletionTimestamp !== undefined;
}

/** Address of a kind at the API server. `T` is the type of its objects. */
export interface ApiKind<T> {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
  /** Never set: it only carries the type. */
  readonly __object?: T;
}

/** The API server validates metadata itself; only its shape matters here. */
const metadataSchema = z.custom<ObjectMeta>(
  (value) => typeof value === "object" && value !== null && "name" in value,
);

/** Fields that the schemas of all kinds share. */
export const objectFields = {
  apiVersion: z.string().exactOptional(),
  kind: z.string().exactOptional(),
  metadata: metadataSchema,
};
