/** The body of a server-side apply: what a manager wants, without anything that is the server's. */
import { apiVersionOf } from "../client/paths.ts";
import type { Kind, KubeObject } from "../types.ts";

export type ApplyBody = Record<string, unknown> & { readonly metadata: Record<string, unknown> };

export interface BodyOptions {
  readonly subresource?: "status" | undefined;
  /** With it, the server refuses to create an object that is gone. */
  readonly uid?: string | undefined;
}

/** Main resource: everything but status. Status: nothing but status. Absent and null fields are left out. */
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
      ...(kind.namespaced ? { namespace: metadata.namespace ?? "default" } : {}),
      ...optional("uid", uid ?? metadata.uid),
      ...(isStatus ? {} : ownMetadata(metadata)),
    },
    ...withoutAbsent(isStatus ? { status } : rest),
  };
}

function ownMetadata({ labels, annotations, finalizers, ownerReferences }: KubeObject["metadata"]): object {
  return withoutAbsent({ labels, annotations, finalizers, ownerReferences });
}

function withoutAbsent(fields: Record<string, unknown>): Record<string, unknown> {
  const kept: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined && value !== null) kept[name] = pruned(value);
  }
  return kept;
}

// Null means "no value" to the server, which then does not own the field: absent says the same and compares equal.
function pruned(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(pruned);
  if (typeof value !== "object" || value === null) return value;
  return withoutAbsent(value as Record<string, unknown>);
}

function optional(name: string, value: unknown): Record<string, unknown> {
  return value === undefined ? {} : { [name]: value };
}
