/** The operator's word that a host is gone for good. Pure. */
import { ANNOTATION_LOST } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import type { JsonPatchOp } from "../../src/kube/types.ts";

/** A host that has no annotations yet is guarded by its version: another writer's first one must not be overwritten. */
export function lostOperations({ metadata }: Host, nowIso: string): readonly JsonPatchOp[] {
  const guard: JsonPatchOp = { op: "test", path: "/metadata/uid", value: metadata.uid };
  if (metadata.annotations === undefined) {
    return [
      guard,
      { op: "test", path: "/metadata/resourceVersion", value: metadata.resourceVersion },
      { op: "add", path: "/metadata/annotations", value: { [ANNOTATION_LOST]: nowIso } },
    ];
  }
  const path = `/metadata/annotations/${ANNOTATION_LOST.replaceAll("~", "~0").replaceAll("/", "~1")}`;
  return [guard, { op: "add", path, value: nowIso }];
}
