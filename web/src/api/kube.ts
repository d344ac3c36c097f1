/** The Kubernetes API with the reader's own rights, through the console's server. */

import { GROUP, VERSION } from "../../../src/api/group.ts";
import { CONSOLE_PATH } from "../../../src/console/protocol.ts";
import { requestJson } from "./request.ts";

const PROXY = `${CONSOLE_PATH}/k8s`;
const FIELD_MANAGER = "metalbridge-console";

export interface ObjectMeta {
  readonly name: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly generation?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface ApiObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ObjectMeta;
}

/** `hosts` and `nodes` have no namespace. */
export interface Place {
  /** Plural, such as inferenceservices. */
  readonly resource: string;
  readonly namespace?: string;
  readonly name?: string;
}

const CORE = new Set(["pods", "events", "namespaces", "nodes", "configmaps", "secrets"]);
const OTHERS: Readonly<Record<string, string>> = {
  controllerrevisions: "/apis/apps/v1",
  leases: "/apis/coordination.k8s.io/v1",
};

export function pathOf({ resource, namespace, name }: Place): string {
  const root = rootOf(resource);
  const inNamespace = namespace === undefined ? "" : `/namespaces/${encodeURIComponent(namespace)}`;
  const object = name === undefined ? "" : `/${encodeURIComponent(name)}`;
  return `${PROXY}${root}${inNamespace}/${resource}${object}`;
}

function rootOf(resource: string): string {
  if (CORE.has(resource)) return "/api/v1";
  return OTHERS[resource] ?? `/apis/${GROUP}/${VERSION}`;
}

export function getObject<T extends ApiObject>(place: Place, signal?: AbortSignal): Promise<T> {
  return requestJson<T>(pathOf(place), { signal });
}

export async function listObjects<T extends ApiObject>(
  place: Place,
  query: Readonly<Record<string, string>> = {},
  signal?: AbortSignal,
): Promise<readonly T[]> {
  const search = new URLSearchParams({ limit: "500", ...query });
  const { items } = await requestJson<{ readonly items: readonly T[] }>(`${pathOf(place)}?${search}`, {
    signal,
  });
  return items;
}

export interface WriteOptions {
  /** Validated by the API server, but not stored. */
  readonly isDryRun?: boolean;
  /** Fields that the API server does not know are ignored instead of refused. */
  readonly ignoresUnknown?: boolean;
}

/** Fails with code AlreadyExists if there is such an object. */
export function createObject<T extends ApiObject>(
  place: Place,
  object: T,
  options: WriteOptions = {},
): Promise<T> {
  return requestJson<T>(`${pathOf({ ...place, name: undefined } as Place)}?${writeQuery(options)}`, {
    method: "POST",
    body: object,
  });
}

/** `object.metadata.resourceVersion` makes it fail with code Conflict if another user has changed the object since. */
export function replaceObject<T extends ApiObject>(
  place: Place,
  object: T,
  options: WriteOptions = {},
): Promise<T> {
  return requestJson<T>(`${pathOf(place)}?${writeQuery(options)}`, { method: "PUT", body: object });
}

export function mergePatch<T extends ApiObject>(
  place: Place,
  patch: object,
  options: WriteOptions = {},
): Promise<T> {
  return requestJson<T>(`${pathOf(place)}?${writeQuery(options)}`, {
    method: "PATCH",
    contentType: "application/merge-patch+json",
    body: patch,
  });
}

export async function deleteObject(place: Place): Promise<void> {
  await requestJson(`${pathOf(place)}?propagationPolicy=Background`, { method: "DELETE" });
}

function writeQuery({ isDryRun = false, ignoresUnknown = false }: WriteOptions): URLSearchParams {
  const fieldValidation = ignoresUnknown ? "Ignore" : "Strict";
  const search = new URLSearchParams({ fieldManager: FIELD_MANAGER, fieldValidation });
  if (isDryRun) search.set("dryRun", "All");
  return search;
}
