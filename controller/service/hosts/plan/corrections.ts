/** JSON patches that correct replicas and slices. Pure. */
import { ANNOTATION_ADDRESSES } from "../../../../src/api/group.ts";
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import type { EndpointSlice } from "../../../../src/kube/objects.ts";
import type { JsonPatchOp } from "../../../../src/kube/types.ts";
import { correctLabels, escapeJsonPointer, isSame, withVersionGuards } from "../../owned/corrections.ts";

/** Empty if nothing differs. */
export function correctReplica(
  { metadata, spec }: InferenceReplica,
  desired: Partial<InferenceReplica["spec"]>,
): JsonPatchOp[] {
  const changes: JsonPatchOp[] = [];
  for (const [field, value] of Object.entries(desired)) {
    const now = spec[field as keyof typeof spec];
    if (!isSame(now, value)) changes.push({ op: "add", path: `/spec/${field}`, value });
  }
  return withVersionGuards(metadata, changes);
}

/** Corrects labels and the allowed addresses. The address family of a slice cannot change. */
export function correctSlice({ metadata }: EndpointSlice, desired: EndpointSlice): JsonPatchOp[] {
  const changes = [...correctLabels(metadata, desired.metadata)];
  const value = desired.metadata.annotations?.[ANNOTATION_ADDRESSES];
  if (metadata.annotations?.[ANNOTATION_ADDRESSES] !== value) {
    if (metadata.annotations === undefined)
      changes.push({ op: "add", path: "/metadata/annotations", value: {} });
    changes.push({
      op: "add",
      path: `/metadata/annotations/${escapeJsonPointer(ANNOTATION_ADDRESSES)}`,
      value,
    });
  }
  return withVersionGuards(metadata, changes);
}
