/** Definitions of kinds of other projects, which show when the kinds are installed: of LeaderWorkerSet, and of others. */

import { isBeingDeleted } from "../../../src/api/metadata.ts";
import { CUSTOM_RESOURCES, LEADER_WORKER_SETS } from "../../../src/kube/kinds.ts";
import type { Kind, KubeObject, Reflector } from "../../../src/kube/types.ts";
import type { KindDefinition } from "../../../src/kube/workload-objects.ts";

/** The watch of the definition of a kind. */
export function definitionWatch(kind: Kind<KubeObject>) {
  return { kind: CUSTOM_RESOURCES, fieldSelector: `metadata.name=${nameOf(kind)}`, keep: withoutSchemas };
}

function nameOf({ plural, group }: Kind<KubeObject>): string {
  return `${plural}.${group}`;
}

export type KindState =
  | { readonly at: "installed" }
  | { readonly at: "missing" }
  | { readonly at: "otherVersion"; readonly served: readonly string[] };

type Definitions = Pick<Reflector<KindDefinition>, "get">;

/** The state of the kind of groups in the cache. */
export function groupKindOf({ groupKind }: { readonly groupKind: Definitions }): KindState {
  return kindStateOf(groupKind, LEADER_WORKER_SETS);
}

/** The state of a kind in the cache of its definition. */
export function kindStateOf(definitions: Definitions, kind: Kind<KubeObject>): KindState {
  const definition = definitions.get(nameOf(kind));
  const isEstablished = definition?.status?.conditions?.some(
    ({ type, status }) => type === "Established" && status === "True",
  );
  if (definition === undefined || isEstablished !== true || isBeingDeleted(definition))
    return { at: "missing" };
  const served = (definition.spec.versions ?? []).flatMap(({ name, served: is }) =>
    is === false ? [] : [name],
  );
  return served.includes(kind.version) ? { at: "installed" } : { at: "otherVersion", served };
}

/** The schemas are more than a megabyte. */
function withoutSchemas({ apiVersion, kind, metadata, spec, status }: KindDefinition): KindDefinition {
  const { managedFields: _, annotations: __, ...identity } = metadata;
  const versions = spec.versions?.map(({ name, served }) => ({ name, served }));
  return { apiVersion, kind, metadata: identity, spec: { versions }, status };
}
