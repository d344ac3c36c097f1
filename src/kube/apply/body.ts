/** The body of a server-side apply: the desired fields of a manager, without those that the server sets. */
import { GROUP } from "../../api/group.ts";
import { apiVersionOf } from "../paths.ts";
import type { Kind, KubeObject } from "../types.ts";
import { isEmpty } from "./owned-fields.ts";

export type ApplyBody = Record<string, unknown> & { readonly metadata: Record<string, unknown> };

export interface BodyOptions {
  readonly subresource?: "status" | undefined;
  /** Makes the server refuse to create the object again if it was deleted. */
  readonly uid?: string | undefined;
}

/**
 * For the main resource the body has everything except the status; for the status it has only the status. Absent and null
 * fields are omitted; in our own kinds also empty records and lists, because the server turns one that is emptied into null,
 * and then rejects it ("must be of type object: null") or drops the fields around it.
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
  const { status, ...withoutStatus } = content;
  const isStatus = subresource === "status";
  const ownUid = uid ?? metadata.uid;
  return {
    apiVersion: apiVersionOf(kind),
    kind: kind.kind,
    metadata: {
      name: metadata.name,
      namespace: kind.namespaced ? (metadata.namespace ?? "default") : undefined,
      ...(ownUid === undefined ? {} : { uid: ownUid }),
      ...(isStatus ? {} : ownMetadata(metadata)),
    },
    ...withoutAbsent(isStatus ? { status } : withoutStatus, isOurs(kind)),
  };
}

/**
 * Characters that Go escapes; YAML's line breaks other than CR and LF; YAML's byte order mark; and characters that YAML readers
 * reject.
 */
const ESCAPED = /[<>&\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g;

/**
 * The text of a request's body. The server keeps the data of a ControllerRevision byte for byte, and compares it with what Go
 * makes of it, so an unescaped `&` would make each patch a change of immutable data. It parses an apply as YAML, which rejects
 * some characters that JSON allows and folds others to a space. Escaped characters are stored unchanged.
 */
export function textOfBody(body: unknown): string {
  return JSON.stringify(body).replace(
    ESCAPED,
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
  const present: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields)) {
    // The server does not record ownership of a null field, so omitting it is equivalent and compares equal.
    if (value === undefined || value === null) continue;
    const part = pruned(value, isEmptyAbsent);
    if (!isEmptyAbsent || !isEmpty(part)) present[name.toWellFormed()] = part;
  }
  return present;
}

function pruned(value: unknown, isEmptyAbsent: boolean): unknown {
  // A lone surrogate has no UTF-8 encoding, so the server cannot store it.
  if (typeof value === "string") return value.toWellFormed();
  if (Array.isArray(value)) return value.map((part) => pruned(part, isEmptyAbsent));
  if (typeof value !== "object" || value === null) return value;
  return withoutAbsent(value as Record<string, unknown>, isEmptyAbsent);
}
