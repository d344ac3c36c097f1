/** The row of a service, from the service and its replicas and pods. Pure. */

import { memoryOfPod, memoryOfReplica } from "../../../fitness/density/held-memory.ts";
import { getCondition, isConditionTrue } from "../../../src/api/conditions.ts";
import type { ErrorCode } from "../../../src/api/errors.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService, ServicePlacement } from "../../../src/api/inference-service/index.ts";
import { mainModelOf } from "../../../src/api/inference-service/roles.ts";
import { desiredOf, isResting } from "../../../src/api/inference-service/serving.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import type { Attention, ServiceRow, StateWord } from "../../../src/console/rows.ts";
import { tokensPerRequest } from "../../../src/engines/contract/pod.ts";
import { hasPodEnded, type Pod } from "../../../src/kube/workload-objects.ts";
import { downloadWord } from "../../../src/verdicts/download.ts";
import { phaseSince } from "../../../src/verdicts/replica.ts";
import {
  attentionOf,
  type BadCondition,
  type CommandNames,
  conditionFinding,
  endsByItself,
  type Finding,
} from "./attention.ts";

export interface ServiceObjects {
  readonly service: InferenceService;
  readonly replicas: readonly InferenceReplica[];
  readonly pods: readonly Pod[];
}

export function serviceRow(objects: ServiceObjects): ServiceRow {
  const { service, replicas, pods } = objects;
  const { metadata, spec, status } = service;
  const living = pods.filter((pod) => !hasPodEnded(pod));
  const desired = desiredOf(service);
  const attention = serviceAttention(objects);
  const places = [
    ...replicas.map((replica) => replica.spec.template.hostName),
    ...living.flatMap((pod) => pod.spec.nodeName ?? []),
  ];
  const claims = [...replicas.map(memoryOfReplica), ...living.map(memoryOfPod)];
  const phase = status?.phase ?? "Pending";
  return {
    namespace: metadata.namespace ?? "default",
    name: metadata.name,
    state: serviceState(objects, attention),
    phase,
    message: status?.message ?? "",
    attention,
    ready: status?.readyReplicas ?? 0,
    desired,
    model: mainModelOf(spec),
    quantization: status?.model?.quantization ?? "",
    runtime: status?.runtime ?? spec.runtime ?? "",
    on: status?.on ?? "",
    mode: status?.mode ?? spec.mode ?? "chat",
    endpoint: status?.endpoint ?? "",
    hosts: [...new Set(places)].sort(),
    rollout: isRollingOut(service) ? { updated: status?.updatedReplicas ?? 0, desired } : undefined,
    performance: performanceOf(service),
    contextCut: contextCutOf(service, replicas),
    claimedBytes: claims.reduce((sum, { bytes }) => sum + bytes, 0),
    createdAt: metadata.creationTimestamp ?? "",
    resourceVersion: metadata.resourceVersion ?? "",
  };
}

function performanceOf({ status }: InferenceService): ServiceRow["performance"] {
  const { tokensPerSecond, timeToFirstTokenSeconds, requestsInFlight } = status?.performance ?? {};
  return { tokensPerSecond, timeToFirstTokenSeconds, requestsInFlight };
}

/** The smallest one of all replicas. An engine caps the context at the length that its model was trained for. */
function contextCutOf(
  { status }: InferenceService,
  replicas: readonly InferenceReplica[],
): ServiceRow["contextCut"] {
  const warning = getCondition(status?.conditions, "Warnings");
  const why = warning?.reason === "ContextBeyondTraining" ? warning.message : "";
  const cuts = replicas.flatMap((replica) => {
    const served = replica.status?.contextPerSlot;
    const asked = tokensPerRequest(replica.spec.template.engine);
    return served !== undefined && asked !== undefined && served < asked ? { served, asked, why } : [];
  });
  return cuts.sort((a, b) => a.served - b.served)[0];
}

/** A rollout that stopped is still one: old replicas serve beside the new ones. */
function isRollingOut({ status }: InferenceService): boolean {
  const reason = getCondition(status?.conditions, "Progressing")?.reason;
  return reason === "NewRevisionRollingOut" || reason === "RolloutStopped";
}

/** Faults of a service that serves. Notes about its spec, such as ignored fields, are not among them. */
const WARNINGS: readonly BadCondition[] = [
  { type: "CPUFallback", bad: "True", level: "warn" },
  { type: "ModelNamesAccepted", bad: "False", level: "warn" },
  { type: "GatewayReady", bad: "False", level: "warn" },
  { type: "ScalingActive", bad: "False", level: "warn" },
  { type: "SLOReady", bad: "False", level: "warn" },
];

function serviceAttention({ service, replicas }: ServiceObjects): Attention | undefined {
  const { metadata, spec, status } = service;
  if (isBeingDeleted(service) || isResting(service)) return undefined;
  const finding =
    degradedFinding(service) ??
    waitingFinding(service) ??
    replicaFinding(service, replicas) ??
    noted(service);
  if (finding === undefined) return undefined;
  const { namespace, name } = metadata;
  const names = { namespace, service: name, model: mainModelOf(spec) };
  const misses = finding.reason === status?.reason ? (status.placement?.misses ?? []) : [];
  return misses.length === 0 ? attentionOf(finding, names) : placementAttention(finding, names, misses);
}

type Miss = NonNullable<ServicePlacement["misses"]>[number];

/** With the remedy for the nearest host, and the hosts that would only have to be uncordoned. */
function placementAttention(finding: Finding, names: CommandNames, misses: readonly Miss[]): Attention {
  const [nearest] = misses;
  const code = finding.reason === "NoHostFits" ? (nearest?.reason as ErrorCode) : finding.code;
  const attention = attentionOf({ ...finding, code }, { ...names, host: nearest?.host });
  // A host that is drained is cordoned too, but not to be uncordoned in passing.
  const cordoned = misses.flatMap(({ host, reason, message }) =>
    reason === "HostCordoned" && message === "cordoned" ? host : [],
  );
  if (cordoned.length === 0) return attention;
  // The button is the command.
  const { command, ...rest } = attention;
  return { ...rest, command: attention.reason === "HostCordoned" ? undefined : command, cordoned };
}

function levelOf({ status }: InferenceService): Attention["level"] {
  return (status?.readyReplicas ?? 0) > 0 ? "warn" : "bad";
}

function degradedFinding(service: InferenceService): Finding | undefined {
  const { phase, reason = "", message = "", conditions } = service.status ?? {};
  const level = levelOf(service);
  const found = conditionFinding(conditions, { type: "Degraded", bad: "True", level });
  if (found !== undefined || (phase !== "Failed" && phase !== "Degraded")) return found;
  return { level, reason, message, since: getCondition(conditions, "Ready")?.lastTransitionTime };
}

/** Not while memory is being freed for the service. */
function waitingFinding(service: InferenceService): Finding | undefined {
  const { phase, reason = "", message = "", conditions } = service.status ?? {};
  if (phase !== "WaitingForCapacity" && phase !== "WaitingForGPU") return undefined;
  if (reason === "MakingRoom") return undefined;
  const notPlaced = getCondition(conditions, "Placed");
  const since = (notPlaced?.status === "False" ? notPlaced : getCondition(conditions, "Ready"))
    ?.lastTransitionTime;
  return { level: levelOf(service), reason, message, since };
}

/** A replica that cannot start, which the controller does not count as degraded before the service has served. */
function replicaFinding(
  service: InferenceService,
  replicas: readonly InferenceReplica[],
): Finding | undefined {
  for (const replica of replicas) {
    const { phase, reason = "", message = "" } = replica.status ?? {};
    if (phase !== "Waiting" || replica.spec.drain !== undefined || endsByItself(reason)) continue;
    return { level: levelOf(service), reason, message, since: phaseSince(replica) };
  }
  return undefined;
}

function noted({ status }: InferenceService): Finding | undefined {
  for (const one of WARNINGS) {
    const found = conditionFinding(status?.conditions, one);
    if (found !== undefined && found.reason !== "ScalingDisabled") return found;
  }
  return undefined;
}

function serviceState(objects: ServiceObjects, attention: Attention | undefined): StateWord {
  const { service } = objects;
  if (isBeingDeleted(service)) return { word: "Deleting", level: "busy" };
  const phase = service.status?.phase ?? "Pending";
  switch (phase) {
    case "Ready":
      return { word: "Ready", level: "ok" };
    case "Idle":
    case "Stopped":
    case "Suspended":
      return { word: phase, level: "idle" };
    case "Failed":
      return { word: "Failed", level: "bad" };
    case "Degraded":
      return { word: "Degraded", level: levelOf(service) };
    case "WaitingForCapacity":
    case "WaitingForGPU":
      return { word: waitingWord(service), level: attention?.level ?? "busy" };
    case "Pending":
    case "Creating":
    case "Progressing":
      return startingState(objects, attention, phase);
    default:
      phase satisfies never;
      // The cluster may be newer than this server.
      return { word: phase, level: "idle" };
  }
}

const MEMORY_REASONS: ReadonlySet<string> = new Set([
  "NoHostWithMemory",
  "HostMemoryShort",
  "InsufficientMemory",
  "MemoryPressure",
]);

function waitingWord({ status }: InferenceService): string {
  const { phase, reason = "", waitingFor = "" } = status ?? {};
  if (phase === "WaitingForGPU") return "Waiting for a GPU";
  if (reason === "MakingRoom") return "Making room";
  if (reason === "WaitingForQuota") return "Waiting for quota";
  if (reason === "HostCordoned") return "Waiting: host cordoned";
  const isForMemory = MEMORY_REASONS.has(reason) || waitingFor.startsWith("memory");
  return isForMemory ? "Waiting for memory" : "Waiting for capacity";
}

function startingState(
  { service, replicas }: ServiceObjects,
  attention: Attention | undefined,
  phase: string,
): StateWord {
  if (attention !== undefined) {
    const isWaiting = replicas.some(({ status }) => status?.phase === "Waiting");
    const word = MEMORY_REASONS.has(attention.reason) ? "Waiting for memory" : "Waiting";
    return { word: isWaiting ? word : phase, level: attention.level };
  }
  const { updatedReplicas = 0, conditions } = service.status ?? {};
  if (isConditionTrue(conditions, "Progressing") && isRollingOut(service))
    return { word: `Rolling out ${updatedReplicas}/${desiredOf(service)}`, level: "busy" };
  const fetching = replicas.filter(({ status }) => status?.phase === "Fetching");
  if (fetching.length > 0) {
    const progress = fetching.flatMap(({ status }) => status?.progress ?? []);
    return { word: downloadWord("Downloading", progress), level: "busy" };
  }
  const isStarting = replicas.some(({ status }) => /^(Admitting|Starting)$/.test(status?.phase ?? ""));
  return { word: isStarting ? "Starting" : phase, level: "busy" };
}
