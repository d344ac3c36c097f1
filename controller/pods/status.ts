/** Plans the complete status of a service that runs as pods. Pure and total. */

import { type ErrorCode, errorCatalog } from "../../src/api/errors.ts";
import { LABEL_SERVICE } from "../../src/api/group.ts";
import type { InferenceServiceStatus } from "../../src/api/inference-service/index.ts";
import { PRIORITIES } from "../../src/capacity/placement/priority.ts";
import { defined } from "../../src/util/defined.ts";
import { truncate } from "../../src/util/text.ts";
import { codeOfRejections, describeRejections } from "../frame/apply/rejection.ts";
import { serviceUrlOf } from "../frame/owned/kube-service.ts";
import { hasServed, obstructedPhase, type PhaseStatus, stoppedPhase } from "../frame/service/phase.ts";
import { servedModelOf } from "../frame/service/served-model.ts";
import { podsConditions } from "./conditions.ts";
import { desiredPods, type PodsStatusInput, readyPodsText } from "./facts.ts";
import { waitsForQuota } from "./quota.ts";
import { isZero } from "./workload/strategy.ts";

const MAX_MESSAGE = 4096;

export function planPodsStatus(input: PodsStatusInput, nowIso: string): InferenceServiceStatus {
  const { service, model, resolution, deployment, pods, queuePosition } = input;
  const verdict = verdictOf(input);
  const desired = desiredPods(input);
  const { unscheduled } = pods;
  const isWaiting = verdict.phase === "WaitingForGPU" || verdict.phase === "WaitingForCapacity";
  return defined<InferenceServiceStatus>({
    ...verdict,
    message: truncate(verdict.message, MAX_MESSAGE),
    observedGeneration: service.metadata.generation,
    mode: service.spec.mode ?? "chat",
    runtime: resolution.at === "resolved" ? resolution.runtime : service.spec.runtime,
    inheritedSettings: (resolution.at === "resolved" ? resolution : service.status)?.inheritedSettings,
    model: servedModelOf(service, model),
    ...revisionsOf(input, verdict),
    replicas: pods.live,
    readyReplicas: pods.ready,
    updatedReplicas: deployment?.status?.updatedReplicas ?? 0,
    desiredReplicas: desired,
    ready: `${pods.ready}/${desired}`,
    selector: `${LABEL_SERVICE}=${service.metadata.name}`,
    endpoint: serviceUrlOf(service),
    queuePosition: isWaiting ? queuePosition : undefined,
    waitingFor: isWaiting ? unscheduled?.waitingFor : undefined,
    effectivePriority: unscheduled?.priority ?? PRIORITIES[service.spec.priority],
    conditions: podsConditions(input, verdict, nowIso),
  });
}

/** `currentRevision` stays the old revision until all pods are of the newest. */
function revisionsOf(
  { service, resolution }: PodsStatusInput,
  { phase }: PhaseStatus,
): Pick<InferenceServiceStatus, "currentRevision" | "updateRevision"> {
  // The path of hosts reports the revisions.
  if (service.spec.placement.on === "Auto") return {};
  const { currentRevision: last, updateRevision: newest } = service.status ?? {};
  const updateRevision = resolution.at === "resolved" ? resolution.revision : newest;
  const currentRevision = phase === "Ready" ? updateRevision : last;
  return defined({ currentRevision, updateRevision });
}

/** The first verdict that applies: obstacles, stopped services, problems, and then what is still missing. */
function verdictOf(input: PodsStatusInput): PhaseStatus {
  return (
    obstructedPhase(input.obstacle, input.service) ??
    stoppedPhase(desiredPods(input), input.service) ??
    blocked(input) ??
    rejected(input) ??
    waiting(input) ??
    failing(input) ??
    queued(input) ??
    deferred(input) ??
    incomplete(input) ?? { phase: "Ready", reason: "InferenceReady", message: readyMessage(input) }
  );
}

/** Existing pods still serve without their Model, but they are not changed. */
function blocked(input: PodsStatusInput): PhaseStatus | undefined {
  const { resolution, pods } = input;
  if (resolution.at !== "blocked") return undefined;
  const { code: reason, message, isFinal } = resolution;
  if (pods.ready > 0) return { phase: "Degraded", reason, message: `${readyPodsText(input)}; ${message}` };
  return { phase: isFinal ? "Failed" : "Pending", reason, message };
}

/** For objects that the API server rejects: ours, or the Deployment's pods. */
function rejected(input: PodsStatusInput): PhaseStatus | undefined {
  const { rejections, pods, deployment } = input;
  const phase = pods.ready > 0 ? "Degraded" : "Pending";
  const reason = codeOfRejections(rejections);
  if (reason !== undefined) return { phase, reason, message: describeRejections(rejections) };
  const failure = deployment?.status?.conditions?.find(({ type }) => type === "ReplicaFailure");
  if (failure?.status !== "True" || pods.ready >= desiredPods(input)) return undefined;
  const { message = "" } = failure;
  const code = message.includes("exceeded quota:") ? "QuotaExceeded" : "ApiObjectRefused";
  return { phase, reason: code, message: `the API server rejects the pods: ${message}` };
}

function waiting(input: PodsStatusInput): PhaseStatus | undefined {
  const { unscheduled, ready } = input.pods;
  if (unscheduled === undefined || ready >= desiredPods(input)) return undefined;
  const { code, message, pods } = unscheduled;
  const isForDevice = code === "InsufficientGPU" || code === "DeviceClassMissing";
  const phase = isForDevice ? "WaitingForGPU" : "WaitingForCapacity";
  const count = pods === 1 ? "1 pod waits" : `${pods} pods wait`;
  const needsRemedy = code === "UnbindableModelCache" || code === "DeviceClassMissing";
  const remedy = needsRemedy ? ` To do: ${errorCatalog[code].do}.` : "";
  return {
    phase,
    reason: code,
    message: `${readyPodsText(input)}; ${count} for a node: ${message}${remedy}`,
  };
}

function failing(input: PodsStatusInput): PhaseStatus | undefined {
  const { problem } = input.pods;
  if (problem === undefined || isComplete(input)) return undefined;
  const { code, remedy = imageRemedy(code, input) ?? REMEDIES[code] ?? errorCatalog[code].do } = problem;
  const message = `${readyPodsText(input)}; ${problem.message}. To do: ${remedy}`;
  return { phase: "Degraded", reason: code, message };
}

/** Remedies for pods only, where the catalog's remedy is for hosts too. */
const REMEDIES: Partial<Record<ErrorCode, string>> = {
  DiskFull:
    "enlarge the claim with kubectl patch pvc, or with spec.modelCache.persistence Ephemeral raise spec.resources.ephemeralStorage",
};

/** For an image that comes from a BackendRuntime. */
function imageRemedy(code: ErrorCode, { service: { spec } }: PodsStatusInput): string | undefined {
  if (code !== "ImageUnavailable" || spec.backendRuntime === undefined || spec.image !== undefined)
    return undefined;
  const { name } = spec.backendRuntime;
  return `correct image and version of BackendRuntime ${name}, or set spec.backendRuntime.version or spec.image of the service; for a private registry, add its credentials to spec.imagePullSecrets`;
}

/** Kueue holds pods until their queue has quota. That may take any time, so no deadline applies. */
function queued(input: PodsStatusInput): PhaseStatus | undefined {
  const { quota, pods } = input;
  if (quota === undefined || quota.waiting === 0) return undefined;
  const phase = pods.ready >= desiredPods(input) ? "Progressing" : "WaitingForCapacity";
  const message = `${readyPodsText(input)}; ${waitsForQuota(quota)}`;
  return { phase, reason: "WaitingForQuota", message };
}

/** The pods of the old template still serve. */
function deferred({ deferral }: PodsStatusInput): PhaseStatus | undefined {
  return deferral === undefined ? undefined : { phase: "Progressing", ...deferral };
}

/** True if all desired pods are ready and of the newest template, and no other pods are left. */
function isComplete(input: PodsStatusInput): boolean {
  const desired = desiredPods(input);
  const { updatedReplicas = 0, replicas = 0 } = input.deployment?.status ?? {};
  return (
    isObserved(input) &&
    input.pods.ready >= desired &&
    updatedReplicas >= desired &&
    replicas <= updatedReplicas
  );
}

function isObserved({ deployment }: PodsStatusInput): boolean {
  return (deployment?.status?.observedGeneration ?? 0) >= (deployment?.metadata.generation ?? 0);
}

function incomplete(input: PodsStatusInput): PhaseStatus | undefined {
  if (isComplete(input)) return undefined;
  const { deployment, pods, service } = input;
  const desired = desiredPods(input);
  const { updatedReplicas = 0, replicas = 0 } = deployment?.status ?? {};
  const text = `${readyPodsText(input)}${noRoomText(input)}`;
  // A download may take longer than the deadline.
  if (isObserved(input) && hasExceededDeadline(deployment) && pods.fetching === 0) {
    const reason = "RolloutDeadlineExceeded";
    return { phase: "Degraded", reason, message: `${text}; the new pods did not become ready in time` };
  }
  const isUpdate = hasServed(service);
  if (isUpdate && replicas > updatedReplicas) {
    const message = `${updatedReplicas} of ${desired} updated; ${text}`;
    return { phase: "Progressing", reason: "NewRevisionRollingOut", message };
  }
  const { fetching } = pods;
  const message =
    fetching === 0
      ? text
      : `${text}; ${fetching === 1 ? "1 pod fetches" : `${fetching} pods fetch`} the weights`;
  return { phase: isUpdate ? "Progressing" : "Creating", reason: "ReplicasNotReady", message };
}

/** For a rollout in which all desired pods are ready, and the next pod finds no node. */
function noRoomText({ pods: { unscheduled }, deployment }: PodsStatusInput): string {
  if (unscheduled === undefined) return "";
  const strategy = deployment?.spec.strategy;
  const isSurgeOnly = strategy?.type === "RollingUpdate" && isZero(strategy.rollingUpdate.maxUnavailable);
  const remedy = isSurgeOnly ? "; with rollout.maxUnavailable 1 an old pod makes room for it" : "";
  return `; the next pod waits for a node: ${unscheduled.message}${remedy}`;
}

function hasExceededDeadline(deployment: PodsStatusInput["deployment"]): boolean {
  const progressing = deployment?.status?.conditions?.find(({ type }) => type === "Progressing");
  return progressing?.reason === "ProgressDeadlineExceeded";
}

function readyMessage(input: PodsStatusInput): string {
  const ignored = input.resolution.at === "resolved" ? input.resolution.unhonored : [];
  return `${readyPodsText(input)}${ignored.length === 0 ? "" : `; ignored: ${ignored.join(", ")}`}`;
}
