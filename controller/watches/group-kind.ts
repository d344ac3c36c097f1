/** The definition of LeaderWorkerSet, without which the cluster cannot run groups of pods. */

import { isBeingDeleted } from "../../src/api/metadata.ts";
import { CUSTOM_RESOURCES, LEADER_WORKER_SETS } from "../../src/kube/kinds.ts";
import type { Reflector } from "../../src/kube/types.ts";
import type { CustomResourceDefinition } from "../../src/kube/workload-objects.ts";

const { plural, group, version } = LEADER_WORKER_SETS;
const NAME = `${plural}.${group}`;

/** The watch of the definition. */
export const GROUP_KIND = {
  kind: CUSTOM_RESOURCES,
  fieldSelector: `metadata.name=${NAME}`,
  keep: withoutSchemas,
};

export type GroupKind =
  | { readonly at: "installed" }
  | { readonly at: "missing" }
  | { readonly at: "otherVersion"; readonly served: readonly string[] };

/** The state of the kind in the cache. */
export function groupKindOf({
  groupKind,
}: {
  readonly groupKind: Pick<Reflector<CustomResourceDefinition>, "get">;
}): GroupKind {
  const definition = groupKind.get(NAME);
  const isEstablished = definition?.status?.conditions?.some(
    ({ type, status }) => type === "Established" && status === "True",
  );
  if (definition === undefined || isEstablished !== true || isBeingDeleted(definition))
    return { at: "missing" };
  const served = (definition.spec.versions ?? []).flatMap(({ name, served: is }) =>
    is === false ? [] : [name],
  );
  return served.includes(version) ? { at: "installed" } : { at: "otherVersion", served };
}

/** The schemas are more than a megabyte. */
function withoutSchemas({
  apiVersion,
  kind,
  metadata,
  spec,
  status,
}: CustomResourceDefinition): CustomResourceDefinition {
  const { managedFields: _, annotations: __, ...identity } = metadata;
  const versions = spec.versions?.map(({ name, served }) => ({ name, served }));
  return { apiVersion, kind, metadata: identity, spec: { versions }, status };
}
