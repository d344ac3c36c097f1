/** The whole status of a service that runs as pods. Pure and total. */
import {
  type Condition,
  type ConditionUpdate,
  isConditionTrue,
  setCondition,
} from "../../../src/api/conditions.ts";
import { LABEL_SERVICE } from "../../../src/api/group.ts";
import type { InferenceService, InferenceServiceStatus } from "../../../src/api/inference-service/index.ts";
import type { Model } from "../../../src/api/model.ts";
import { PRIORITIES } from "../../../src/capacity/placement/priority.ts";
import type { Blocked } from "../../../src/capacity/resolve.ts";
import type { Deployment } from "../../../src/kube/workload-objects.ts";
import type { PodsResolved } from "../../../src/linux/resolve.ts";
import { truncate } from "../../../src/text.ts";
import { codeOfRejections, describeRejections, type Rejection } from "../../service/apply/rejection.ts";
import type { Obstacle } from "../../service/apply/run.ts";
import { endpointOf } from "../../service/kube-service.ts";
import { obstructedPhase, type PhaseStatus, stoppedPhase, withoutAbsent } from "../../service/phase.ts";
import { keepsRevisions } from "./plan.ts";
import type { PodsSeen } from "./pods.ts";
import { type Deferral, revisionOf } from "./rollout.ts";

export interface StatusInput {
  readonly service: InferenceService;
  readonly model: Model | undefined;
  readonly resolution: PodsResolved | Blocked;
  /** As the cache shows it: undefined until it exists. */
  readonly deployment: Deployment | undefined;
  readonly pods: PodsSeen;
  readonly deferral: Deferral | undefined;
  readonly queuePosition: number | undefined;
  readonly obstacle: Obstacle;
  readonly rejections: readonly Rejection[];
}

const MAX_MESSAGE = 4096;

export function planPodsStatus(input: StatusInput, nowIso: string): InferenceServiceStatus {
  const { service, model, resolution, deployment, pods, queuePosition } = input;
  const verdict = verdictOf(input);
  const want = wantedPods(input);
  const { unscheduled } = pods;
  const isWaiting = verdict.phase === "WaitingForGPU" || verdict.phase === "WaitingForCapacity";
  const status: { [K in keyof InferenceServiceStatus]: InferenceServiceStatus[K] | undefined } = {
    ...verdict,
    message: truncate(verdict.message, MAX_MESSAGE),
    observedGeneration: service.metadata.generation,
    mode: service.spec.mode ?? "chat",
    runtime: resolution.at === "resolved" ? resolution.runtime : service.spec.runtime,
    model: withoutAbsent({
      name: service.spec.modelRef,
      source: model?.spec.source,
      quantization: model?.status?.gguf?.quantization ?? model?.spec.quantization,
      sizeBytes: model?.status?.sizeBytes,
    }),
    ...revisionsOf(input, verdict),
    replicas: pods.live,
    readyReplicas: pods.ready,
    updatedReplicas: deployment?.status?.updatedReplicas ?? 0,
    desiredReplicas: want,
    ready: `${pods.ready}/${want}`,
    selector: `${LABEL_SERVICE}=${service.metadata.name}`,
    endpoint: endpointOf(service),
    queuePosition: isWaiting ? queuePosition : undefined,
    waitingFor: isWaiting ? unscheduled?.waitingFor : undefined,
    effectivePriority: unscheduled?.priority ?? PRIORITIES[service.spec.priority],
    conditions: conditionsOf(input, verdict, nowIso),
  };
  return withoutAbsent(status);
}

/** The revision that serves, until all pods are of the newest. */
function revisionsOf(
  { service, resolution }: StatusInput,
  { phase }: PhaseStatus,
): Pick<InferenceServiceStatus, "currentRevision" | "updateRevision"> {
  if (!keepsRevisions(service)) return {};
  const { currentRevision: last, updateRevision: newest } = service.status ?? {};
  const updateRevision =
    resolution.at === "resolved" ? revisionOf(resolution.workload.deployment.spec.template) : newest;
  const currentRevision = phase === "Ready" ? updateRevision : last;
  return withoutAbsent({ currentRevision, updateRevision });
}

/** Pods wanted now: of the autoscaler where there is one. */
function wantedPods({ service, resolution, deployment }: StatusInput): number {
  const { suspend, replicas } = service.spec;
  if (suspend) return 0;
  if (resolution.at === "resolved" && resolution.workload.autoscaler !== undefined)
    return deployment?.spec.replicas ?? resolution.workload.autoscaler.spec.minReplicas ?? 1;
  return replicas;
}

/** The first that applies: obstacles, what the spec asks for, what prevents it, what is still missing. */
function verdictOf(input: StatusInput): PhaseStatus {
  return (
    obstructedPhase(input.obstacle, input.service) ??
    stoppedPhase(wantedPods(input), input.service) ??
    blocked(input) ??
    rejected(input) ??
    waiting(input) ??
    troubled(input) ??
    deferred(input) ??
    incomplete(input) ?? { phase: "Ready", reason: "InferenceReady", message: readyMessage(input) }
  );
}

/** Pods that exist serve on without their Model, but are not changed. */
function blocked(input: StatusInput): PhaseStatus | undefined {
  const { resolution, pods } = input;
  if (resolution.at !== "blocked") return undefined;
  const { code: reason, message, isFinal } = resolution;
  if (pods.ready > 0) return { phase: "Degraded", reason, message: `${readyText(input)}; ${message}` };
  return { phase: isFinal ? "Failed" : "Pending", reason, message };
}

/** Objects that the API server refuses: ours, or the Deployment's pods. */
function rejected(input: StatusInput): PhaseStatus | undefined {
  const { rejections, pods, deployment } = input;
  const phase = pods.ready > 0 ? "Degraded" : "Pending";
  const reason = codeOfRejections(rejections);
  if (reason !== undefined) return { phase, reason, message: describeRejections(rejections) };
  const failure = deployment?.status?.conditions?.find(({ type }) => type === "ReplicaFailure");
  if (failure?.status !== "True" || pods.ready >= wantedPods(input)) return undefined;
  const { message = "" } = failure;
  const code = message.includes("exceeded quota:") ? "QuotaExceeded" : "ApiObjectRefused";
  return { phase, reason: code, message: `the API server refuses the pods: ${message}` };
}

function waiting(input: StatusInput): PhaseStatus | undefined {
  const { unscheduled, ready } = input.pods;
  if (unscheduled === undefined || ready >= wantedPods(input)) return undefined;
  const { code, message, pods } = unscheduled;
  const phase = code === "InsufficientGPU" ? "WaitingForGPU" : "WaitingForCapacity";
  const count = pods === 1 ? "1 pod waits" : `${pods} pods wait`;
  return { phase, reason: code, message: `${readyText(input)}; ${count} for a node: ${message}` };
}

function troubled(input: StatusInput): PhaseStatus | undefined {
  const { trouble, ready } = input.pods;
  if (trouble === undefined || ready >= wantedPods(input)) return undefined;
  return { phase: "Degraded", reason: trouble.code, message: `${readyText(input)}; ${trouble.message}` };
}

/** The old pods serve on, with the old template. */
function deferred({ deferral }: StatusInput): PhaseStatus | undefined {
  return deferral === undefined ? undefined : { phase: "Progressing", ...deferral };
}

function incomplete(input: StatusInput): PhaseStatus | undefined {
  const { deployment, pods, service } = input;
  const want = wantedPods(input);
  const { observedGeneration = 0, updatedReplicas = 0, replicas = 0 } = deployment?.status ?? {};
  const isObserved = observedGeneration >= (deployment?.metadata.generation ?? 0);
  if (isObserved && pods.ready >= want && updatedReplicas >= want && replicas <= updatedReplicas)
    return undefined;
  const text = readyText(input);
  if (isObserved && isLate(deployment)) {
    const reason = "RolloutDeadlineExceeded";
    return { phase: "Degraded", reason, message: `${text}; the new pods did not become ready in time` };
  }
  const hasServed = service.status?.phase !== undefined && HAS_SERVED.has(service.status.phase);
  if (hasServed && replicas > updatedReplicas) {
    const message = `${updatedReplicas} of ${want} updated; ${text}`;
    return { phase: "Progressing", reason: "NewRevisionRollingOut", message };
  }
  return { phase: hasServed ? "Progressing" : "Creating", reason: "ReplicasNotReady", message: text };
}

const HAS_SERVED = new Set(["Ready", "Progressing", "Degraded"]);

function isLate(deployment: Deployment | undefined): boolean {
  const progressing = deployment?.status?.conditions?.find(({ type }) => type === "Progressing");
  return progressing?.reason === "ProgressDeadlineExceeded";
}

function readyText(input: StatusInput): string {
  return `${input.pods.ready} of ${wantedPods(input)} replicas ready`;
}

function readyMessage(input: StatusInput): string {
  const ignored = input.resolution.at === "resolved" ? input.resolution.unhonored : [];
  return `${readyText(input)}${ignored.length === 0 ? "" : `; ignored: ${ignored.join(", ")}`}`;
}

/** Each always present, so that `kubectl wait` can rely on them. */
function conditionsOf(input: StatusInput, verdict: PhaseStatus, nowIso: string): Condition[] {
  const { service, pods } = input;
  const { phase, reason, message } = verdict;
  const isReady = phase === "Ready";
  const available: ConditionUpdate =
    pods.ready > 0
      ? { type: "Available", status: "True", reason: "InferenceReady", message: readyText(input) }
      : { type: "Available", status: "False", reason: unavailableReason(verdict), message };
  const isMoving = phase === "Creating" || phase === "Progressing" || phase === "Pending";
  const updates: ConditionUpdate[] = [
    { type: "Ready", status: isReady ? "True" : "False", reason, message },
    available,
    { type: "Progressing", status: isMoving ? "True" : "False", reason, message },
    degraded(input, verdict),
    placed(input, verdict),
    honored(input),
    ...rolloutDeferred(input),
  ];
  return updates.flatMap((update) => {
    const before = service.status?.conditions?.filter(({ type }) => type === update.type);
    return setCondition(before, { ...update, observedGeneration: service.metadata.generation }, nowIso);
  });
}

function unavailableReason({ phase, reason }: PhaseStatus): string {
  return phase === "Suspended" || phase === "Stopped" || reason === "ServiceNameTaken"
    ? reason
    : "NoReadyReplicas";
}

function degraded({ resolution, model, rejections }: StatusInput, verdict: PhaseStatus): ConditionUpdate {
  const { phase, reason, message } = verdict;
  const isReading =
    resolution.at === "blocked" &&
    resolution.code === "ModelNotReady" &&
    !isConditionTrue(model?.status?.conditions, "Degraded");
  const isBad =
    phase === "Failed" ||
    phase === "Degraded" ||
    (phase === "Pending" && !isReading && (resolution.at === "blocked" || rejections.length > 0)) ||
    reason === "QuotaExceeded" ||
    reason === "ApiObjectRefused";
  if (isBad) return { type: "Degraded", status: "True", reason, message };
  return { type: "Degraded", status: "False", reason: "AsExpected", message: "" };
}

function placed(input: StatusInput, verdict: PhaseStatus): ConditionUpdate {
  const { pods, resolution, obstacle } = input;
  const type = "Placed";
  const want = wantedPods(input);
  if (pods.unscheduled !== undefined)
    return { type, status: "False", reason: pods.unscheduled.code, message: pods.unscheduled.message };
  if (pods.live < want && (obstacle.at !== "none" || resolution.at === "blocked"))
    return { type, status: "Unknown", reason: verdict.reason, message: verdict.message };
  return { type, status: "True", reason: want === 0 ? "NothingWanted" : "AllPlaced", message: "" };
}

/** Only where a rollout may have to wait. */
function rolloutDeferred({ service, deferral }: StatusInput): ConditionUpdate[] {
  const { rolloutPolicy, maxPodLifetimeIdleTimeoutSeconds } = service.spec;
  const type = "RolloutDeferred";
  if (deferral !== undefined) return [{ type, status: "True", ...deferral }];
  if (rolloutPolicy?.waitForIdle !== true && maxPodLifetimeIdleTimeoutSeconds === undefined) return [];
  return [{ type, status: "False", reason: "AsExpected", message: "" }];
}

function honored({ resolution }: StatusInput): ConditionUpdate {
  const type = "SpecHonored";
  if (resolution.at === "blocked")
    return { type, status: "Unknown", reason: resolution.code, message: "not known until the Model is read" };
  const { unhonored } = resolution;
  if (unhonored.length === 0) return { type, status: "True", reason: "AllFieldsHonored", message: "" };
  const message = `ignored in pods: ${unhonored.join(", ")}`;
  return { type, status: "False", reason: "FieldsNotHonored", message };
}
