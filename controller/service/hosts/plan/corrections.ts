/** JSON patches that correct replicas and slices. Pure. */
import { ANNOTATION_ADDRESSES } from "../../../../src/api/group.ts";
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import type { EndpointSlice } from "../../../../src/kube/objects.ts";
import type { JsonPatchOp } from "../../../../src/kube/types.ts";
import { correctLabels, escapeJsonPointer, isSame, withVersionGuards } from "../../owned/corrections.ts";

/** Empty when nothing differs. */
export function correctReplica(
  { metadata, spec }: InferenceReplica,
  wanted: Partial<InferenceReplica["spec"]>,
): JsonPatchOp[] {
  const changes: JsonPatchOp[] = [];
  for (const [field, value] of Object.entries(wanted)) {
    const now = spec[field as keyof typeof spec];
    if (!isSame(now, value)) changes.push({ op: "add", path: `/spec/${field}`, value });
  }
  return withVersionGuards(metadata, changes);
}

/** Labels and the allowed addresses; the address family of a slice cannot change. */
export function correctSlice({ metadata }: EndpointSlice, wanted: EndpointSlice): JsonPatchOp[] {
  const changes = [...correctLabels(metadata, wanted.metadata)];
  const value = wanted.metadata.annotations?.[ANNOTATION_ADDRESSES];
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
