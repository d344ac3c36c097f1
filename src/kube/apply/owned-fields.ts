/** Reading `metadata.managedFields`: which fields one manager has applied. */

/** A node of `fieldsV1`: children by `f:name`, `k:{…}`, `v:…`, `i:n`, and `.` for the node itself. No children: owned as one value. */
export interface OwnedFields {
  readonly [path: string]: OwnedFields;
}

export interface Ownership {
  readonly manager: string;
  readonly subresource?: "status" | undefined;
}

/** What `manager` applied at this API version; undefined when it applied nothing, or the entry cannot be read. */
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

/** The list entries below a node, as the server names them: by key fields or by value. */
export function ownedEntries(
  owned: OwnedFields,
): { readonly by: "key" | "value"; readonly id: unknown; readonly owned: OwnedFields }[] {
  const entries: { by: "key" | "value"; id: unknown; owned: OwnedFields }[] = [];
  for (const [path, below] of Object.entries(owned)) {
    if (path.startsWith("k:")) entries.push({ by: "key", id: parse(path.slice(2)), owned: below });
    if (path.startsWith("v:")) entries.push({ by: "value", id: parse(path.slice(2)), owned: below });
  }
  return entries;
}

/** True when the node is owned as one value, not by its parts. */
export function isOneValue(owned: OwnedFields): boolean {
  return Object.keys(owned).length === 0;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isOwnedFields(value: unknown): value is OwnedFields {
  return isRecord(value) && Object.values(value).every(isOwnedFields);
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
