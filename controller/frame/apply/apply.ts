/** Runs the steps of a pass in an order in which a crash between any two steps is harmless. */

import { FINALIZER_SERVICE, LABEL_SERVICE_UID } from "../../../src/api/group.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES } from "../../../src/api/kinds.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import { keyOf } from "../../../src/api/names.ts";
import { REASON_KIND_NOT_INSTALLED } from "../../../src/kube/errors.ts";
import { PODS } from "../../../src/kube/kinds.ts";
import type { ApiResult, JsonPatchOp, KubeObject } from "../../../src/kube/types.ts";
import { versionGuards } from "../owned/corrections.ts";
import { hasNameOf, type OwnedKind, ownedKinds, ownedRow } from "../owned/kinds.ts";
import type { PathStep, PodStep, ServiceStep } from "../owned/steps.ts";
import { applyObject } from "./apply-object.ts";
import { create } from "./create.ts";
import { ApiCallFailed } from "./failure.ts";
import {
  type ApplyOutcome,
  type ApplyRun,
  newApplyRun,
  recordResult,
  reject,
  type StepPorts,
} from "./run.ts";

type OwnedStep = Extract<ServiceStep, { readonly what: OwnedKind }>;

/**
 * The finalizer comes first, so that everything created is cleaned up, and at the same time the Service, because a slice may carry
 * its name only once the Service is known to be ours: the first replica waits for both. A Service that is created while the
 * finalizer is refused is removed as an orphan. Replicas are removed before others are created, so that there are never more than
 * planned.
 */
export async function applyServiceSteps(ports: StepPorts, steps: readonly PathStep[]): Promise<ApplyOutcome> {
  const owned = steps.filter(isOwned);
  const planned = new Set(owned.filter(isReplicaCreate).map(({ object }) => object.metadata.name));
  const run = newApplyRun(planned);
  // First, because the pods wait, and a later step may fail.
  await Promise.all(steps.map((step) => ("pod" in step ? applyToPod(ports, run, step) : undefined)));
  const finalizers = steps.flatMap((step) => (step.do === "addFinalizer" ? [step.service] : []));
  const isService = ({ what }: OwnedStep) => what === "kubeServices";
  const [isAdded] = await Promise.all([
    Promise.all(finalizers.map((service) => addFinalizer(ports, run, service))),
    ...owned.filter(isService).map((step) => applyOwned(ports, run, step)),
  ]);
  if (isAdded.includes(false)) return run;
  const parts = [
    owned.filter(isReplicaRemoval),
    owned.filter(isReplicaCreate),
    owned.filter((step) => !isService(step) && !isReplicaCreate(step) && !isReplicaRemoval(step)),
  ];
  for (const part of parts) await Promise.all(part.map((step) => applyOwned(ports, run, step)));
  for (const step of steps)
    if (step.do === "removeFinalizer") await removeFinalizer(ports, run, step.service);
  return run;
}

function isOwned(step: PathStep): step is OwnedStep {
  return "what" in step;
}

function isReplicaCreate(step: OwnedStep): boolean {
  return step.what === "replicas" && step.do === "create";
}

function isReplicaRemoval(step: OwnedStep): boolean {
  return step.what === "replicas" && step.do === "remove";
}

async function applyOwned(ports: StepPorts, run: ApplyRun, step: OwnedStep): Promise<void> {
  switch (step.do) {
    case "create":
      return mustWait(run, step.what) ? undefined : create(ports, run, step.what, step.object);
    case "patch":
      return recordResult(
        run,
        `change ${ownedRow(step.what).kind.kind} ${step.object.metadata.name}`,
        await ports.client.jsonPatch(ownedRow(step.what).kind, step.object.metadata, step.operations),
      );
    case "remove":
      return remove(ports, run, step);
    case "apply":
      return mustWait(run, step.what) ? undefined : applyObject(ports, run, step);
    default:
      return step satisfies never;
  }
}

/** A pod that has changed meanwhile is left to the next pass. */
async function applyToPod({ client, log }: StepPorts, run: ApplyRun, step: PodStep): Promise<void> {
  const { pod, because } = step;
  const { metadata } = pod;
  let result: ApiResult<unknown> =
    step.do === "replacePod"
      ? await client.remove(PODS, metadata, { uid: metadata.uid })
      : await client.jsonPatch(PODS, metadata, step.operations);
  if (step.do === "releasePod" && !result.ok && result.error.kind === "invalid") {
    const err = result.error.message;
    log.warn({ pod: keyOf(metadata), err }, "the pod starts without a choice of nodes");
    result = await client.jsonPatch(PODS, metadata, step.fallback);
  }
  const isReplaced = step.do === "replacePod";
  if (result.ok) log.info({ pod: keyOf(metadata), because }, `pod ${isReplaced ? "replaced" : "released"}`);
  else if (result.error.kind !== "conflict")
    recordResult(
      run,
      `${isReplaced ? "replace" : "remove the scheduling gate of"} Pod ${metadata.name}`,
      result,
    );
}

function mustWait({ obstacle, isWithoutService }: ApplyRun, what: OwnedKind): boolean {
  return obstacle.at !== "none" || (isWithoutService && ownedRow(what).needsService === true);
}

async function remove(
  { client, log }: StepPorts,
  run: ApplyRun,
  step: Extract<OwnedStep, { do: "remove" }>,
): Promise<void> {
  const { kind } = ownedRow(step.what);
  const { name, uid } = step.object.metadata;
  const result = await client.remove(kind, step.object.metadata, { uid, propagation: "Background" });
  if (result.ok && step.what === "replicas") {
    run.removed.push({ replica: step.object, because: step.because });
    log.info({ replica: name, because: step.because }, "replica removed");
  }
  if (result.ok || result.error.kind === "notFound" || result.error.kind === "conflict") return;
  reject(run, `delete ${kind.kind} ${name}`, result.error);
}

/** Added before replicas or workloads are created. False if it is not added. */
async function addFinalizer(
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
async function removeFinalizer(
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
    const { kind, selector, hasForeignFinalizer = false, isRightOptional = false } = ownedRow(what);
    const labelSelector = [`${LABEL_SERVICE_UID}=${uid}`, ...(selector ? [selector] : [])].join(",");
    const result = await client.list(kind, { namespace: namespace ?? "default", labelSelector });
    // A cluster may lack optional kinds.
    if (!result.ok && result.error.reason === REASON_KIND_NOT_INSTALLED) return false;
    if (!result.ok && isRightOptional && result.error.kind === "forbidden") return false;
    if (!result.ok) throw new ApiCallFailed(`list ${kind.plural}`, result.error);
    const isLeft = (object: KubeObject) => !(hasForeignFinalizer && isBeingDeleted(object));
    return result.value.items.some((object) => hasNameOf(name, what, object) && isLeft(object));
  });
  return (await Promise.all(results)).includes(true);
}
