/** Object metadata and the address of a kind, as the API server has them. Structurally the same as the client's types. */
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
  ownerReferences?: { apiVersion: string; kind: string; name: string; uid: string }[];
  managedFields?: { manager?: string; operation?: string; subresource?: string; fieldsV1?: unknown }[];
}

/** One kind of object as the API server addresses it. `T` ties results to it. */
export interface ApiKind<T> {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
  /** Type carrier only; never set. */
  readonly __object?: T;
}

/** The API server validates metadata itself; only its shape matters here. */
export const metadataSchema = z.custom<ObjectMeta>(
  (value) => typeof value === "object" && value !== null && "name" in value,
);
