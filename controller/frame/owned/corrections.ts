/** Builds JSON patches that correct an existing object field by field, guarded by uid and resourceVersion. Pure. */

import { LABEL_MODEL_FAMILY } from "../../../src/api/group.ts";
import type { ObjectMeta } from "../../../src/api/metadata.ts";
import type { Model } from "../../../src/api/model.ts";
import type { JsonPatchOp } from "../../../src/kube/types.ts";
import { canonicalJson } from "../../../src/util/hash.ts";

/** Makes a patch fail if another client has changed the object, or if it was replaced by another object of that name. */
export function versionGuards({ uid, resourceVersion }: ObjectMeta): JsonPatchOp[] {
  return [
    { op: "test", path: "/metadata/uid", value: uid },
    { op: "test", path: "/metadata/resourceVersion", value: resourceVersion },
  ];
}

export function correctLabels(now: ObjectMeta, desired: ObjectMeta): JsonPatchOp[] {
  return Object.entries(desired.labels ?? {})
    .filter(([name, value]) => now.labels?.[name] !== value)
    .map(([name, value]) => ({
      op: "add" as const,
      path: `/metadata/labels/${escapeJsonPointer(name)}`,
      value,
    }));
}

/** Sets or removes the label of the Model's family. Without the Model it stays. */
export function correctFamily({ labels = {} }: ObjectMeta, model: Model | undefined): JsonPatchOp[] {
  const value = model?.spec.familyName;
  if (model === undefined || labels[LABEL_MODEL_FAMILY] === value) return [];
  const path = `/metadata/labels/${escapeJsonPointer(LABEL_MODEL_FAMILY)}`;
  return [value === undefined ? { op: "remove", path } : { op: "add", path, value }];
}

/** Empty if there are no changes. */
export function withVersionGuards(metadata: ObjectMeta, changes: readonly JsonPatchOp[]): JsonPatchOp[] {
  return changes.length === 0 ? [] : [...versionGuards(metadata), ...changes];
}

export function isSame(now: unknown, desired: unknown): boolean {
  return canonicalJson(now ?? null) === canonicalJson(desired ?? null);
}

/** Escapes a name as a segment of a JSON pointer. */
export function escapeJsonPointer(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}
