/** The body of a server-side apply: what a manager wants, without the fields that the server sets. */
import { GROUP } from "../../api/group.ts";
import { apiVersionOf } from "../paths.ts";
import type { Kind, KubeObject } from "../types.ts";

export type ApplyBody = Record<string, unknown> & { readonly metadata: Record<string, unknown> };

export interface BodyOptions {
  readonly subresource?: "status" | undefined;
  /** With it, the server refuses to create an object that is gone. */
  readonly uid?: string | undefined;
}

/**
 * Main resource: everything but status. Status: nothing but status. Absent and null fields are left out; in our own
 * kinds, empty records and lists too: to empty one that has entries, the server makes it null, and then refuses it
 * ("must be of type object: null") or drops all that is around it.
 */
export function bodyOfApply<T extends KubeObject>(
  kind: Kind<T>,
  object: T,
  { subresource, uid }: BodyOptions,
): ApplyBody {
  const {
    apiVersion: _version,
    kind: _kind,
    metadata,
    ...content
  } = object as KubeObject & Record<string, unknown>;
  const { status, ...rest } = content;
  const isStatus = subresource === "status";
  return {
    apiVersion: apiVersionOf(kind),
    kind: kind.kind,
    metadata: {
      name: metadata.name,
      namespace: kind.namespaced ? (metadata.namespace ?? "default") : undefined,
      ...optional("uid", uid ?? metadata.uid),
      ...(isStatus ? {} : ownMetadata(metadata)),
    },
    ...withoutAbsent(isStatus ? { status } : rest, isOurs(kind)),
  };
}

/** YAML's line breaks beside CR and LF, its byte order mark, and what its readers refuse. */
const NOT_VERBATIM_IN_YAML = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g;

/**
 * The body as it is sent. The server parses an apply as YAML, which refuses some characters that JSON allows and folds
 * others to a blank; as escapes it stores them unchanged.
 */
export function textOfApply(body: ApplyBody): string {
  return JSON.stringify(body).replace(
    NOT_VERBATIM_IN_YAML,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

function ownMetadata({ labels, annotations, finalizers, ownerReferences }: KubeObject["metadata"]): object {
  return withoutAbsent({ labels, annotations, finalizers, ownerReferences }, true);
}

function isOurs({ group }: Kind<KubeObject>): boolean {
  return group === GROUP || group.endsWith(`.${GROUP}`);
}

function withoutAbsent(fields: Record<string, unknown>, isEmptyAbsent: boolean): Record<string, unknown> {
  const kept: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields)) {
    // Null means "no value" to the server, which then does not own the field: absent says the same and compares equal.
    if (value === undefined || value === null) continue;
    const part = pruned(value, isEmptyAbsent);
    if (!isEmptyAbsent || !isEmpty(part)) kept[name.toWellFormed()] = part;
  }
  return kept;
}

function pruned(value: unknown, isEmptyAbsent: boolean): unknown {
  // A lone surrogate has no UTF-8: no server can store it.
  if (typeof value === "string") return value.toWellFormed();
  if (Array.isArray(value)) return value.map((part) => pruned(part, isEmptyAbsent));
  if (typeof value !== "object" || value === null) return value;
  return withoutAbsent(value as Record<string, unknown>, isEmptyAbsent);
}

function isEmpty(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

function optional(name: string, value: unknown): Record<string, unknown> {
  return value === undefined ? {} : { [name]: value };
}
