/** Carries out the steps of a pass, in the order that keeps every crash in between harmless. */
import {
  FINALIZER_SERVICE,
  LABEL_HOST,
  LABEL_SERVICE_UID,
  LABEL_SLICE_MANAGED_BY,
  SLICE_MANAGED_BY,
} from "../../src/api/group.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { INFERENCE_REPLICAS, INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { CONTROLLER_REVISIONS, ENDPOINT_SLICES, SERVICES } from "../../src/kube/kinds.ts";
import type { ApiResult, JsonPatchOp, Kind, KubeClient, KubeObject } from "../../src/kube/types.ts";
import type { Log } from "../../src/ports.ts";
import { ApiCallFailed, isTerminating } from "./failure.ts";
import { guards } from "./plan/corrections.ts";
import type { Owned, OwnedKind, ServiceStep } from "./plan/steps.ts";
import type { Removal } from "./rollout/types.ts";
import type { Obstacle } from "./status/facts.ts";

const KINDS: { readonly [K in OwnedKind]: Kind<Owned[K]> } = {
  replica: INFERENCE_REPLICAS,
  slice: ENDPOINT_SLICES,
  kubeService: SERVICES,
  revision: CONTROLLER_REVISIONS,
};

export interface Outcome {
  readonly obstacle: Obstacle;
  /** Replicas that exist now as planned, and those of them that this pass really made. */
  readonly created: readonly InferenceReplica[];
  readonly made: readonly InferenceReplica[];
  /** Replicas that were deleted, which ends them once they are drained. */
  readonly removed: readonly Removal[];
  /** Somebody else wrote meanwhile, or the copy is behind: look again soon. */
  readonly isBehind: boolean;
}

interface Run {
  /** Names of the replicas that this pass makes. */
  readonly planned: ReadonlySet<string>;
  obstacle: Obstacle;
  created: InferenceReplica[];
  made: InferenceReplica[];
  removed: Removal[];
  isBehind: boolean;
}

export interface StepPorts {
  readonly client: KubeClient;
  readonly log: Log;
}

type OwnedStep = Exclude<ServiceStep, { readonly do: "addFinalizer" | "removeFinalizer" }>;

/**
 * Finalizer first, so that nothing is made that nobody would clean up. Then the Service: a slice may carry
 * its name only once it is known to be ours. Replicas that end go before those that begin, so that there are
 * never more than planned. Then the rest.
 */
export async function applySteps(ports: StepPorts, steps: readonly ServiceStep[]): Promise<Outcome> {
  const owned = steps.filter(isOwned);
  const planned = new Set(owned.filter(isReplicaCreate).map(({ object }) => object.metadata.name));
  const run: Run = { planned, obstacle: { at: "none" }, created: [], made: [], removed: [], isBehind: false };
  for (const step of steps) if (step.do === "addFinalizer") await addFinalizer(ports, run, step.service);
  if (run.isBehind) return run;
  const parts = [
    owned.filter(({ what }) => what === "kubeService"),
    owned.filter(isReplicaEnd),
    owned.filter(isReplicaCreate),
    owned.filter((step) => step.what !== "kubeService" && !isReplicaCreate(step) && !isReplicaEnd(step)),
  ];
  for (const part of parts) await Promise.all(part.map((step) => applyOwned(ports, run, step)));
  for (const step of steps)
    if (step.do === "removeFinalizer") await removeFinalizer(ports, run, step.service);
  return run;
}

function isOwned(step: ServiceStep): step is OwnedStep {
  return step.do !== "addFinalizer" && step.do !== "removeFinalizer";
}

function isReplicaCreate(step: OwnedStep): boolean {
  return step.what === "replica" && step.do === "create";
}

function isReplicaEnd(step: OwnedStep): boolean {
  return step.what === "replica" && step.do === "remove";
}

async function applyOwned(ports: StepPorts, run: Run, step: OwnedStep): Promise<void> {
  switch (step.do) {
    case "create":
      return run.obstacle.at === "none" ? create(ports, run, step.what, step.object) : undefined;
    case "patch":
      return change(ports, run, step, step.operations);
    case "remove":
      return remove(ports, run, step);
    default:
      return step satisfies never;
  }
}

async function create<K extends OwnedKind>(
  ports: StepPorts,
  run: Run,
  what: K,
  object: Owned[K],
): Promise<void> {
  const { client, log } = ports;
  const kind = KINDS[what] as Kind<KubeObject>;
  const { name, namespace } = object.metadata;
  if (what === "slice" && isOfMissingReplica(run, object)) return;
  const result = await client.create(kind, object as KubeObject);
  if (result.ok) {
    if (what === "replica") {
      run.created.push(result.value as InferenceReplica);
      run.made.push(result.value as InferenceReplica);
      log.info(
        { replica: name, host: (object as InferenceReplica).spec.template.hostName },
        "replica created",
      );
    }
    return;
  }
  if (isTerminating(result.error)) {
    run.obstacle = { at: "terminating" };
    return;
  }
  if (result.error.kind !== "alreadyExists")
    throw new ApiCallFailed(`create ${kind.kind} ${name}`, result.error);
  const live = await client.get(kind, { name, namespace });
  if (
    live.ok &&
    ownerOf(live.value) === ownerOf(object) &&
    live.value.metadata.deletionTimestamp === undefined
  ) {
    if (what === "replica") run.created.push(live.value as InferenceReplica);
    return;
  }
  if (!live.ok || what !== "kubeService" || ownerOf(live.value) === ownerOf(object)) {
    run.isBehind = true;
    return;
  }
  const message = `a Service named ${name} exists that is not of this InferenceService; delete or rename it, or choose another name`;
  run.obstacle = { at: "nameTaken", message };
}

/** A slice names the host of the replica that exists, so it waits for one that was not made here and now. */
function isOfMissingReplica({ planned, created }: Run, { metadata }: KubeObject): boolean {
  if (!planned.has(metadata.name)) return false;
  const replica = created.find((one) => one.metadata.name === metadata.name);
  return replica?.spec.template.hostName !== metadata.labels?.[LABEL_HOST];
}

async function change(
  ports: StepPorts,
  run: Run,
  step: OwnedStep,
  operations: readonly JsonPatchOp[],
): Promise<void> {
  const kind = KINDS[step.what] as Kind<KubeObject>;
  const result = await ports.client.jsonPatch(kind, step.object.metadata, operations);
  settle(run, `patch ${kind.kind} ${step.object.metadata.name}`, result);
}

async function remove(
  { client, log }: StepPorts,
  run: Run,
  step: Extract<OwnedStep, { do: "remove" }>,
): Promise<void> {
  const kind = KINDS[step.what] as Kind<KubeObject>;
  const { name, uid } = step.object.metadata;
  const options = uid === undefined ? {} : { uid };
  const result = await client.remove(kind, step.object.metadata, { ...options, propagation: "Background" });
  if (result.ok && step.what === "replica") {
    run.removed.push({ replica: step.object, because: step.because });
    log.info({ replica: name, because: step.because }, "replica removed");
  }
  if (result.ok || result.error.kind === "notFound" || result.error.kind === "conflict") return;
  throw new ApiCallFailed(`delete ${kind.kind} ${name}`, result.error);
}

async function addFinalizer({ client }: StepPorts, run: Run, { metadata }: InferenceService): Promise<void> {
  const value = [...(metadata.finalizers ?? []), FINALIZER_SERVICE];
  const operations: JsonPatchOp[] = [...guards(metadata), { op: "add", path: "/metadata/finalizers", value }];
  const result = await client.jsonPatch(INFERENCE_SERVICES, metadata, operations);
  settle(run, `add the finalizer of ${metadata.name}`, result);
  if (!result.ok) run.isBehind = true;
}

/** The copies may be behind by what was created a moment ago, so the server is asked before the last hold is given up. */
async function removeFinalizer(ports: StepPorts, run: Run, { metadata }: InferenceService): Promise<void> {
  if (await hasBelongings(ports.client, metadata)) {
    run.isBehind = true;
    return;
  }
  const value = (metadata.finalizers ?? []).filter((name) => name !== FINALIZER_SERVICE);
  const operations: JsonPatchOp[] = [
    ...guards(metadata),
    { op: "replace", path: "/metadata/finalizers", value },
  ];
  const result = await ports.client.jsonPatch(INFERENCE_SERVICES, metadata, operations);
  settle(run, `remove the finalizer of ${metadata.name}`, result);
  if (result.ok) ports.log.info({}, "service is gone");
}

async function hasBelongings(
  client: KubeClient,
  { namespace, uid }: InferenceService["metadata"],
): Promise<boolean> {
  for (const kind of Object.values(KINDS) as Kind<KubeObject>[]) {
    // The cluster's own slices copy the labels of their Service, and go with it.
    const ours = kind.kind === ENDPOINT_SLICES.kind ? `,${LABEL_SLICE_MANAGED_BY}=${SLICE_MANAGED_BY}` : "";
    const labelSelector = `${LABEL_SERVICE_UID}=${uid}${ours}`;
    const result = await client.list(kind, { namespace: namespace ?? "default", labelSelector });
    if (!result.ok) throw new ApiCallFailed(`list ${kind.plural}`, result.error);
    if (result.value.items.length > 0) return true;
  }
  return false;
}

/** Gone is done; a conflict is looked at again. */
function settle(run: Run, what: string, result: ApiResult<unknown>): void {
  if (result.ok || result.error.kind === "notFound") return;
  if (result.error.kind !== "conflict") throw new ApiCallFailed(what, result.error);
  run.isBehind = true;
}

function ownerOf({ metadata }: KubeObject): string | undefined {
  return metadata.labels?.[LABEL_SERVICE_UID];
}
