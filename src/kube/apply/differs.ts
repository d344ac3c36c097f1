/** Decides whether an apply would change anything. In doubt it would, because an apply that changes nothing is harmless. Pure. */
import type { KubeObject } from "../types.ts";
import type { ApplyBody } from "./body.ts";
import {
  isEmpty,
  isOneValue,
  isRecord,
  type OwnedFields,
  type Ownership,
  ownedEntries,
  ownedFieldsOf,
  ownedNames,
} from "./owned-fields.ts";

/** Fields that the server keeps out of every field set. */
const IDENTITY = new Set(["apiVersion", "kind"]);
const OWN_METADATA = ["labels", "annotations", "finalizers", "ownerReferences"] as const;

/**
 * False only when every value of `body` is in `current`, and `ownership.manager` owns exactly the fields of `body`.
 * The apply would remove a field that the manager owns and `body` lacks, and it would take over a field that it does not own.
 */
export function applyDiffers(body: ApplyBody, current: KubeObject, ownership: Ownership): boolean {
  const owned = ownedFieldsOf(current.metadata.managedFields, ownership, String(body.apiVersion));
  if (owned === undefined) return true;
  const uid = body.metadata.uid;
  if (uid !== undefined && uid !== current.metadata.uid) return true;
  return recordDiffers(contentOf(body), current, owned);
}

function contentOf(body: ApplyBody): Record<string, unknown> {
  const content: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(body))
    if (!IDENTITY.has(name) && name !== "metadata") content[name] = value;
  const metadata: Record<string, unknown> = {};
  for (const name of OWN_METADATA)
    if (body.metadata[name] !== undefined) metadata[name] = body.metadata[name];
  return Object.keys(metadata).length === 0 ? content : { ...content, metadata };
}

function valueDiffers(desired: unknown, current: unknown, owned: OwnedFields | undefined): boolean {
  if (owned === undefined) return true;
  // The server drops empty values, but still lists us as their owner.
  if (isOneValue(owned)) return !isEqual(desired, current) && !(isEmpty(desired) && isEmpty(current));
  if (Array.isArray(desired)) return !Array.isArray(current) || listDiffers(desired, current, owned);
  if (isRecord(desired)) return recordDiffers(desired, current, owned);
  return true;
}

function recordDiffers(desired: Record<string, unknown>, current: unknown, owned: OwnedFields): boolean {
  if (!isRecord(current)) return true;
  for (const name of ownedNames(owned)) if (desired[name] === undefined) return true;
  for (const [name, value] of Object.entries(desired)) {
    if (value !== undefined && valueDiffers(value, current[name], owned[`f:${name}`])) return true;
  }
  return false;
}

/** Compares a list of type map or set: entries are matched by identity, and the server preserves the applied order. */
function listDiffers(desired: readonly unknown[], current: readonly unknown[], owned: OwnedFields): boolean {
  const entries = ownedEntries(owned);
  if (entries.length !== desired.length) return true;
  let lastIndex = -1;
  for (const value of desired) {
    const matching = entries.filter((entry) => isEntry(value, entry.id, entry.by));
    const [entry] = matching;
    if (entry === undefined || matching.length !== 1) return true;
    const index = current.findIndex((candidate) => hasIdentity(candidate, entry.id, entry.by));
    if (index <= lastIndex) return true;
    lastIndex = index;
    if (entry.by === "key" && valueDiffers(value, current[index], entry.owned)) return true;
  }
  return false;
}

// A key field may be absent in the desired entry if the server fills in its default (a port's protocol).
function isEntry(value: unknown, id: unknown, by: "key" | "value"): boolean {
  if (by === "value") return isEqual(value, id);
  if (!isRecord(value) || !isRecord(id)) return false;
  return Object.entries(id).every(([name, part]) => value[name] === undefined || isEqual(value[name], part));
}

function hasIdentity(candidate: unknown, id: unknown, by: "key" | "value"): boolean {
  if (by === "value") return isEqual(candidate, id);
  if (!isRecord(candidate) || !isRecord(id)) return false;
  return Object.entries(id).every(([name, part]) => isEqual(candidate[name], part));
}

/** Absent, undefined and null fields are equal, because the server drops nulls. */
export function isEqual(left: unknown, right: unknown): boolean {
  if (left === right) return true;
  if (left == null && right == null) return true;
  if (Array.isArray(left)) {
    return (
      Array.isArray(right) &&
      left.length === right.length &&
      left.every((part, index) => isEqual(part, right[index]))
    );
  }
  if (!isRecord(left) || !isRecord(right)) return false;
  for (const name of new Set([...Object.keys(left), ...Object.keys(right)])) {
    if (!isEqual(left[name], right[name])) return false;
  }
  return true;
}
