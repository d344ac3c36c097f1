/** The finalizer of an InferenceService, which stays until all objects of the service are removed. */
import { FINALIZER_SERVICE, LABEL_SERVICE_UID } from "../../../src/api/group.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES } from "../../../src/api/kinds.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import { REASON_KIND_NOT_INSTALLED } from "../../../src/kube/errors.ts";
import type { JsonPatchOp, KubeObject } from "../../../src/kube/types.ts";
import { versionGuards } from "../owned/corrections.ts";
import { hasNameOf, ownedKinds, ownedRow } from "../owned/kinds.ts";
import { ApiCallFailed } from "./failure.ts";
import { type ApplyRun, recordResult, type StepPorts } from "./run.ts";

/** Added before replicas or workloads are created. False if it is not added. */
export async function addFinalizer(
  { client }: StepPorts,
  run: ApplyRun,
  { metadata }: InferenceService,
): Promise<boolean> {
  const value = [...(metadata.finalizers ?? []), FINALIZER_SERVICE];
  const operations: JsonPatchOp[] = [
    ...versionGuards(metadata),
    { op: "add", path: "/metadata/finalizers", value },
  ];
  const result = await client.jsonPatch(INFERENCE_SERVICES, metadata, operations);
  const { length } = run.rejections;
  recordResult(run, `add the finalizer of ${metadata.name}`, result);
  if (!result.ok && run.rejections.length === length) run.isBehind = true;
  return result.ok;
}

/** Lists the objects at the API server before it removes the finalizer, because the watches may miss recent creates. */
export async function removeFinalizer(
  ports: StepPorts,
  run: ApplyRun,
  { metadata }: InferenceService,
): Promise<void> {
  if (await hasOwnedObjects(ports, metadata)) {
    run.isBehind = true;
    return;
  }
  const value = (metadata.finalizers ?? []).filter((name) => name !== FINALIZER_SERVICE);
  const operations: JsonPatchOp[] = [
    ...versionGuards(metadata),
    { op: "replace", path: "/metadata/finalizers", value },
  ];
  const result = await ports.client.jsonPatch(INFERENCE_SERVICES, metadata, operations);
  recordResult(run, `remove the finalizer of ${metadata.name}`, result);
  if (result.ok) ports.log.info({}, "service removed");
}

async function hasOwnedObjects(
  { client, hostsOnly }: StepPorts,
  { namespace, name, uid }: InferenceService["metadata"],
): Promise<boolean> {
  const kinds = ownedKinds.filter((what) => !(hostsOnly && ownedRow(what).isForPods === true));
  const results = kinds.map(async (what) => {
    const { kind, selector, hasForeignFinalizer = false } = ownedRow(what);
    const labelSelector = [`${LABEL_SERVICE_UID}=${uid}`, ...(selector ? [selector] : [])].join(",");
    const result = await client.list(kind, { namespace: namespace ?? "default", labelSelector });
    // A cluster may lack optional kinds.
    if (!result.ok && result.error.reason === REASON_KIND_NOT_INSTALLED) return false;
    if (!result.ok) throw new ApiCallFailed(`list ${kind.plural}`, result.error);
    const isLeft = (object: KubeObject) => !(hasForeignFinalizer && isBeingDeleted(object));
    return result.value.items.some((object) => hasNameOf(name, what, object) && isLeft(object));
  });
  return (await Promise.all(results)).includes(true);
}
