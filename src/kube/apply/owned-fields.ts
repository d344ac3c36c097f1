/** Reads from `metadata.managedFields` which fields a manager has applied. */
import { parseJson } from "../../util/parse-json.ts";

/** A node of `fieldsV1`: children by `f:name`, `k:{…}`, `v:…`, `i:n`, and `.` for the node itself. A node without children is owned as a whole. */
export interface OwnedFields {
  readonly [path: string]: OwnedFields;
}

export interface Ownership {
  readonly manager: string;
  readonly subresource?: "status" | undefined;
}

/** Fields that `manager` applied at this API version; undefined if it applied nothing, or if the entry is invalid. */
export function ownedFieldsOf(
  managedFields: readonly unknown[] | undefined,
  { manager, subresource }: Ownership,
  apiVersion: string,
): OwnedFields | undefined {
  for (const entry of managedFields ?? []) {
    if (!isRecord(entry)) continue;
    const isOurs =
      entry.manager === manager &&
      entry.operation === "Apply" &&
      (entry.subresource ?? undefined) === subresource &&
      entry.apiVersion === apiVersion;
    if (isOurs && isOwnedFields(entry.fieldsV1)) return entry.fieldsV1;
  }
  return undefined;
}

/** Names of the struct or map fields below a node. */
export function ownedNames(owned: OwnedFields): string[] {
  return Object.keys(owned)
    .filter((path) => path.startsWith("f:"))
    .map((path) => path.slice(2));
}

/** List entries below a node, which the server identifies by key fields or by value. */
export function ownedEntries(
  owned: OwnedFields,
): { readonly by: "key" | "value"; readonly id: unknown; readonly owned: OwnedFields }[] {
  const entries: { by: "key" | "value"; id: unknown; owned: OwnedFields }[] = [];
  for (const [path, below] of Object.entries(owned)) {
    if (path.startsWith("k:")) entries.push({ by: "key", id: parseJson(path.slice(2)), owned: below });
    if (path.startsWith("v:")) entries.push({ by: "value", id: parseJson(path.slice(2)), owned: below });
  }
  return entries;
}

/** True if the node is owned as a whole, not by its parts. */
export function isOneValue(owned: OwnedFields): boolean {
  return Object.keys(owned).length === 0;
}

function isOwnedFields(value: unknown): value is OwnedFields {
  return isRecord(value) && Object.values(value).every(isOwnedFields);
}

/** True for absent values, and for lists and records without entries. */
export function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null) return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
