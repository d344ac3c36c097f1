/** Content of BackendRuntimes in ControllerRevisions, which services use until they are updated. Pure. */
import { z } from "zod";
import { type BackendRuntimeSpec, backendRuntimeSchema } from "../../../src/api/backend-runtime.ts";
import { LABEL_BACKEND_RUNTIME, LABEL_REVISION, NAMESPACE_SYSTEM } from "../../../src/api/group.ts";
import { backendRevisionName } from "../../../src/api/names.ts";
import { MANAGED_BY } from "../../../src/api/owned.ts";
import type { Backend } from "../../../src/capacity/backend.ts";
import type { ControllerRevision } from "../../../src/kube/objects.ts";
import { canonicalJson, hash } from "../../../src/util/hash.ts";

/** The content of a BackendRuntime and the digest that identifies it. */
export interface BackendRevision extends Backend {
  readonly revision: string;
}

const dataSchema = z.object({ spec: backendRuntimeSchema.shape.spec });

const digests = new WeakMap<BackendRuntimeSpec, string>();

/** Without the rollout policy, which is not content. The watch delivers a new object with each change. */
export function revisionOfBackend(spec: BackendRuntimeSpec): string {
  const { rolloutPolicy: _, ...content } = spec;
  const digest = digests.get(spec) ?? hash(canonicalJson(content));
  digests.set(spec, digest);
  return digest;
}

/** No owner, because services use the content of a BackendRuntime that is deleted. */
export function backendControllerRevision(
  { name, revision, spec }: BackendRevision,
  order: number,
): ControllerRevision {
  return {
    metadata: {
      name: backendRevisionName(name, revision),
      namespace: NAMESPACE_SYSTEM,
      labels: { [LABEL_BACKEND_RUNTIME]: name, [LABEL_REVISION]: revision, ...MANAGED_BY },
    },
    revision: order,
    data: { spec },
  };
}

/** Name of the BackendRuntime that a ControllerRevision has content of. */
export function backendOfRevision({ metadata }: ControllerRevision): readonly string[] {
  const name = metadata.labels?.[LABEL_BACKEND_RUNTIME];
  return name === undefined ? [] : [name];
}

const parsed = new WeakMap<ControllerRevision, BackendRevision | undefined>();

/** Undefined if the data is invalid, or if another client has changed it. */
export function storedBackend(object: ControllerRevision): BackendRevision | undefined {
  if (!parsed.has(object)) parsed.set(object, parse(object));
  return parsed.get(object);
}

function parse({ metadata, data }: ControllerRevision): BackendRevision | undefined {
  const { [LABEL_BACKEND_RUNTIME]: name, [LABEL_REVISION]: revision } = metadata.labels ?? {};
  const content = dataSchema.safeParse(data).data;
  if (name === undefined || revision === undefined || content === undefined) return undefined;
  return { name, revision, spec: content.spec };
}
