/** The conditions of a service that runs as pods. They are always present, so `kubectl wait` can rely on them. Pure. */
import {
  type Condition,
  type ConditionUpdate,
  getCondition,
  withConditions,
} from "../../src/api/conditions.ts";
import { errorCatalog } from "../../src/api/errors.ts";
import { engineDescription } from "../../src/engines/registry.ts";
import {
  honoredCondition,
  isMoving,
  isReadingModel,
  type PhaseStatus,
  readiness,
  unresolved,
} from "../frame/service/phase.ts";
import { desiredPods, type PodsStatusInput, readyPodsText } from "./facts.ts";
import { nodesCondition } from "./nodes.ts";
import type { PodOffload } from "./offload.ts";
import { quotaCondition, waitsForQuota } from "./quota.ts";

export function podsConditions(input: PodsStatusInput, verdict: PhaseStatus, nowIso: string): Condition[] {
  const { reason, message } = verdict;
  const updates: ConditionUpdate[] = [
    ...readiness(verdict, input.pods.ready, readyPodsText(input)),
    { type: "Progressing", status: isMoving(verdict) ? "True" : "False", reason, message },
    degraded(input, verdict),
    placed(input, verdict),
    honored(input),
    keyRequired(input),
    fallback(input),
    ...rolloutDeferred(input),
    ...(input.nodes === undefined ? [] : [nodesCondition(input.nodes)]),
    ...(input.quota === undefined ? [] : [quotaCondition(input.quota)]),
  ];
  return withConditions(input.service, undefined, updates, nowIso);
}

function degraded({ resolution, model, rejections }: PodsStatusInput, verdict: PhaseStatus): ConditionUpdate {
  const { phase, reason, message } = verdict;
  const isBad =
    phase === "Failed" ||
    phase === "Degraded" ||
    (phase === "Pending" &&
      !isReadingModel(resolution, model) &&
      (resolution.at === "blocked" || rejections.length > 0)) ||
    reason === "QuotaExceeded" ||
    reason === "ApiObjectRefused";
  if (isBad) return { type: "Degraded", status: "True", reason, message };
  return { type: "Degraded", status: "False", reason: "AsExpected", message: "" };
}

function placed(input: PodsStatusInput, verdict: PhaseStatus): ConditionUpdate {
  const { pods, resolution, obstacle, quota } = input;
  const type = "Placed";
  const desired = desiredPods(input);
  if (pods.unscheduled !== undefined)
    return { type, status: "False", reason: pods.unscheduled.code, message: pods.unscheduled.message };
  if (quota !== undefined && quota.waiting > 0)
    return { type, status: "False", reason: "WaitingForQuota", message: waitsForQuota(quota) };
  if (pods.live < desired && (obstacle.at !== "none" || resolution.at === "blocked"))
    return { type, status: "Unknown", reason: verdict.reason, message: verdict.message };
  return {
    type,
    status: "True",
    reason: desired === 0 ? "NothingWanted" : "AllPlaced",
    message: pods.devices?.join("; ") ?? "",
  };
}

/** Only for services whose rollout may have to wait. */
function rolloutDeferred({ service, deferral }: PodsStatusInput): ConditionUpdate[] {
  const { rolloutPolicy, maxPodLifetimeIdleTimeoutSeconds } = service.spec;
  const type = "RolloutDeferred";
  if (deferral !== undefined) return [{ type, status: "True", ...deferral }];
  if (rolloutPolicy?.waitForIdle !== true && maxPodLifetimeIdleTimeoutSeconds === undefined) return [];
  return [{ type, status: "False", reason: "AsExpected", message: "" }];
}

function honored({ resolution }: PodsStatusInput): ConditionUpdate {
  const type = "SpecHonored";
  if (resolution.at === "blocked" && resolution.code === "GateNotInPods")
    return { type, status: "False", reason: resolution.code, message: resolution.message };
  if (resolution.at === "blocked") return unresolved(type, resolution);
  return honoredCondition("ignored in pods", resolution);
}

/** Reports whether clients need a key, and what they reach without one. */
function keyRequired({ service, resolution, pods }: PodsStatusInput): ConditionUpdate {
  const type = "KeyRequired";
  if (service.spec.auth === undefined) return { type, status: "False", reason: "NoAuth", message: NO_AUTH };
  if (pods.keyless.length > 0) {
    const more = pods.keyless.length > MAX_NAMES ? ` and ${pods.keyless.length - MAX_NAMES} more` : "";
    const shown = `${pods.keyless.slice(0, MAX_NAMES).join(", ")}${more}`;
    const message = `pods of an older revision need no key, until the rollout has replaced them: ${shown}`;
    return { type, status: "False", reason: "NoAuth", message };
  }
  if (resolution.at === "blocked") return unresolved(type, resolution, "pods can be created");
  const {
    open = "",
    isInferenceOpen,
    isInArguments,
  } = engineDescription(resolution.runtime)?.pod?.apiKey ?? {};
  if (isInferenceOpen === true) {
    const message = `the engine checks the key, but not on ${open}; let only trusted namespaces reach it (spec.endpoint.allowFrom), or route /v1 alone through a Gateway`;
    return { type, status: "False", reason: "PathsWithoutKey", message };
  }
  const exposed = isInArguments === true ? `; ${IN_ARGUMENTS}` : "";
  const message = `the engine checks the key; without one: ${open}${exposed}`;
  return { type, status: "True", reason: "EngineChecksKeys", message };
}

/** Reports whether an engine computes on the CPU although its pod has a GPU. */
function fallback(input: PodsStatusInput): ConditionUpdate {
  const { service, resolution, offload } = input;
  const type = "CPUFallback";
  if (resolution.at === "blocked") return unresolved(type, resolution, "pods can be created");
  const { runtime, gpuCount } = resolution;
  if (gpuCount === 0) return { type, status: "False", reason: "NoGPURequested", message: "" };
  const { offloaded } = engineDescription(runtime)?.pod ?? {};
  if (offloaded === "needsGPU")
    return {
      type,
      status: "False",
      reason: "EngineNeedsGPU",
      message: `${runtime} does not start without a GPU`,
    };
  const before = getCondition(service.status?.conditions, type);
  // After a change of the leader, the earlier result stays until the logs are read again.
  if (offload === undefined || offload.known.length === 0 || offload.unread > 0) {
    if (before !== undefined && before.reason in FALLBACKS) return { ...before, type };
    return { type, status: "Unknown", reason: "LogNotRead", message: "unknown until a pod is ready" };
  }
  return fallbackOf(input, offload.known);
}

function fallbackOf({ resolution }: PodsStatusInput, known: readonly PodOffload[]): ConditionUpdate {
  const type = "CPUFallback";
  const isIntended = resolution.at === "resolved" && (resolution.need.settings.gpuLayers ?? -1) >= 0;
  const bad = known.filter(
    ({ offloaded: found }) => found?.layers === "none" || (found?.layers === "some" && !isIntended),
  );
  if (bad.length > 0) {
    const isEntirely = bad.some(({ offloaded: found }) => found?.layers === "none");
    const reason = isEntirely ? "NoLayersOnGPU" : "LayersOnCPU";
    const names = bad.map(({ pod, offloaded: found }) => {
      const count = found?.count;
      return count === undefined ? pod : `${pod} (${count} on the GPU)`;
    });
    const { what, do: remedy } = errorCatalog[reason];
    const shown = names.slice(0, MAX_NAMES).join(", ");
    const message = `${bad.length} of ${known.length} ready pods: ${shown}. ${what} To do: ${remedy}`;
    return { type, status: "True", reason, message };
  }
  if (known.some(({ offloaded: found }) => found === undefined)) {
    const message = "the log of a pod cannot be read, or does not say whether the engine uses its GPU";
    return { type, status: "Unknown", reason: "LogSaysNothing", message };
  }
  return { type, status: "False", reason: "LayersOnGPU", message: "" };
}

const FALLBACKS = { NoLayersOnGPU: true, LayersOnCPU: true, LayersOnGPU: true };
const MAX_NAMES = 5;
const IN_ARGUMENTS =
  "the engine passes the key as an argument to a child process, so processes with access to /proc of the node can read it; keep such processes off the node, or choose another runtime";
const NO_AUTH =
  "any client that reaches the Service or a pod's port can use the model; set spec.auth to require a key";
