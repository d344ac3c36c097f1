/** Reads the pods of a service: how many are ready, what the others wait for, and their problems. Pure. */

import { type ErrorCode, errorCatalog } from "../../src/api/errors.ts";
import { ENGINE_CONTAINER, LABEL_GROUP_SET, LABEL_MOUNTS } from "../../src/api/group.ts";
import { isBeingDeleted } from "../../src/api/metadata.ts";
import { ENGINES } from "../../src/engines/registry.ts";
import {
  type ContainerStatus,
  hasPodEnded,
  isImageFailure,
  type Pod,
  type PodTemplate,
} from "../../src/kube/workload-objects.ts";
import { type FetchFailed, isFetched, parseFetchResult } from "../../src/models/fetch-result.ts";
import { truncate } from "../../src/util/text.ts";
import { FETCH_CONTAINER } from "./workload/model-cache.ts";
import type { PodAffinity } from "./workload/mount-affinity.ts";
import {
  isAboutVolume,
  type SchedulingObstacle,
  schedulingObstacle,
  shortages,
} from "./workload/scheduler-message.ts";
import { KEY_VOLUME } from "./workload/volumes.ts";

/** Pods that the scheduler cannot bind to a node. */
export interface Unscheduled {
  readonly code: Extract<
    ErrorCode,
    | "InsufficientGPU"
    | "InsufficientResources"
    | "UnbindableModelCache"
    | "DeviceClassMissing"
    | "PodUnschedulable"
  >;
  /** Resource that one pod requests and that is missing, for example `nvidia.com/gpu: 2`. */
  readonly waitingFor: string;
  /** Message of the scheduler. */
  readonly message: string;
  readonly obstacle: SchedulingObstacle;
  readonly pods: number;
  /** Priority of the oldest of these pods. */
  readonly priority: number;
  /** Wall-clock milliseconds at which the oldest of these pods was created. */
  readonly sinceMs: number;
}

export interface PodProblem {
  /** For an init container that fetches weights, the code that it reported. */
  readonly code: ErrorCode;
  readonly message: string;
  /** Remedy, if it differs from the catalog's. */
  readonly remedy?: string;
}

export interface ObservedPods {
  /** Pods that are ready and not being deleted. */
  readonly ready: number;
  /** Pods that neither have finished nor are being deleted. */
  readonly live: number;
  readonly unscheduled?: Unscheduled;
  readonly problem?: PodProblem;
  /** Pods whose init containers are fetching the weights. */
  readonly fetching: number;
  /** Names of pods whose engines require no API key. */
  readonly keyless: readonly string[];
  /** Nodes and devices of pods with ResourceClaims, as text. */
  readonly devices?: readonly string[];
  /** Flavors whose devices kube-scheduler allocated to pods. */
  readonly flavors?: readonly string[];
}

const MAX_TEXT = 1_000;

/** Total: any field of a pod may be missing. */
export function readPods(pods: readonly Pod[]): ObservedPods {
  const live = pods.filter((pod) => !isBeingDeleted(pod));
  const unscheduled = unscheduledOf(live.filter(isUnscheduled));
  // Pods that have finished are already replaced, so problems of the replacements come first.
  const active = live.filter((pod) => !hasPodEnded(pod));
  const endedLast = [...active, ...live.filter((pod) => isUnresolvedEnd(pod, live))];
  const problem = endedLast.map(problemOf).find((one) => one !== undefined);
  return {
    ready: live.filter(isReadyPod).length,
    live: active.length,
    fetching: live.filter(isFetching).length,
    keyless: active.filter((pod) => !hasKey(pod)).map(({ metadata }) => metadata.name),
    unscheduled,
    problem,
  };
}

/** Number of pods that the nodes have no room for, as far as kube-scheduler could tell. */
export function countRefused({ unscheduled }: ObservedPods): number {
  return unscheduled === undefined || unscheduled.obstacle === "pendingVolume" ? 0 : unscheduled.pods;
}

/** True for pods of a LeaderWorkerSet, false for pods of a Deployment. */
export function isInGroup({ metadata }: Pod): boolean {
  return metadata.labels?.[LABEL_GROUP_SET] !== undefined;
}

export function isReadyPod(pod: Pod): boolean {
  return conditionOf(pod, "Ready")?.status === "True";
}

/** True if the pod neither has finished nor is being deleted. */
export function isLive(pod: Pod): boolean {
  return !isBeingDeleted(pod) && !hasPodEnded(pod);
}

/** True if the pod has finished and no later pod is ready, so the cause may persist. */
export function isUnresolvedEnd(pod: Pod, pods: readonly Pod[]): boolean {
  return hasPodEnded(pod) && !pods.some((other) => isReadyPod(other) && createdMs(other) > createdMs(pod));
}

/** Status of the engine's container, as its node reports it. */
export function engineOf({ status }: Pod): ContainerStatus | undefined {
  return status?.containerStatuses?.find(({ name }) => name === ENGINE_CONTAINER);
}

/** True for a pending pod if other pods are preempted for it, or if it is being deleted. */
export function isMakingRoom(pod: Pod): boolean {
  return isBeingDeleted(pod) || pod.status?.nominatedNodeName !== undefined;
}

/** True while the engine reads its weights for the first time. A pod that has crashed is not protected. */
export function isLoading(pod: Pod): boolean {
  const { started, restartCount = 0, state } = engineOf(pod) ?? {};
  const isRunning = state?.running !== undefined && !isBeingDeleted(pod);
  return isRunning && started === false && restartCount === 0;
}

function isFetching({ status }: Pod): boolean {
  const { initContainerStatuses = [] } = status ?? {};
  return initContainerStatuses.some(
    ({ name, state }) => name.startsWith(FETCH_CONTAINER) && state?.running !== undefined,
  );
}

/** Recognizes the volume or variable that the workload builder adds for the key of any runtime. */
function hasKey({ spec }: Pod): boolean {
  const variables = spec.containers.flatMap(({ env = [] }) => env.map(({ name }) => name));
  return (
    spec.volumes?.some(({ name }) => name === KEY_VOLUME) === true ||
    ENGINES.some(({ pod }) => pod?.apiKey?.by === "variable" && variables.includes(pod.apiKey.variable))
  );
}

export function isUnscheduled(pod: Pod): boolean {
  const scheduled = conditionOf(pod, "PodScheduled");
  return scheduled?.status === "False" && scheduled.reason === "Unschedulable";
}

function unscheduledOf(pods: readonly Pod[]): Unscheduled | undefined {
  const [first] = [...pods].sort((a, b) => createdMs(a) - createdMs(b));
  if (first === undefined) return undefined;
  const reported = conditionOf(first, "PodScheduled")?.message ?? "";
  const code = codeOf(first, reported);
  const message = hasConflictingAffinity(first, reported) ? `${AFFINITY_CONFLICT}: ${reported}` : reported;
  return {
    code,
    waitingFor: truncate(waitingFor(code, first, reported), MAX_TEXT),
    message: truncate(message, MAX_TEXT),
    obstacle: schedulingObstacle(reported),
    pods: pods.length,
    priority: first.spec.priority ?? 0,
    sinceMs: createdMs(first),
  };
}

/** Classifies the scheduler's message: a missing device, another resource, the volume, or else a scheduling rule. */
function codeOf(pod: Pod, message: string): Unscheduled["code"] {
  if (isAboutVolume(message)) return "UnbindableModelCache";
  if (hasConflictingAffinity(pod, message)) return "PodUnschedulable";
  if (mountLabels(pod) > 0 && POD_AFFINITY.test(message)) return "UnbindableModelCache";
  if (/device class \S+ does not exist/.test(message)) return "DeviceClassMissing";
  const short = shortages(message);
  const devices = devicesOf(pod);
  if (devices.some(([name]) => short.includes(name)) || /cannot allocate all claims/.test(message))
    return "InsufficientGPU";
  return short.length > 0 ? "InsufficientResources" : "PodUnschedulable";
}

const POD_AFFINITY = /pod affinity rules/i;

/** Number of labels for mounted claims. Each has an affinity term for the node of the pods that mount the same claim. */
function mountLabels({ metadata }: Pod): number {
  return Object.keys(metadata.labels ?? {}).filter((key) => key.startsWith(LABEL_MOUNTS)).length;
}

const AFFINITY_CONFLICT =
  "kube-scheduler places the pod only on the node of pods that match spec.affinity.podAffinity and mount the same model cache; make that affinity preferred, or use access mode ReadWriteMany or spec.modelCache.persistence Ephemeral";

/** True if the service adds required pod affinity to that of the volume. One existing pod would have to match all terms. */
function hasConflictingAffinity(pod: Pod, message: string): boolean {
  const { podAffinity } = (pod.spec.affinity ?? {}) as PodAffinity;
  const required = podAffinity?.requiredDuringSchedulingIgnoredDuringExecution ?? [];
  return POD_AFFINITY.test(message) && mountLabels(pod) > 0 && required.length > mountLabels(pod);
}

function waitingFor(code: Unscheduled["code"], pod: Pod, message: string): string {
  if (code === "UnbindableModelCache") return "a node that can mount the model cache";
  const short = new Set(shortages(message));
  const missing = requestsOf(pod).filter(([name]) => short.has(name));
  const requested = missing.length > 0 ? missing : devicesOf(pod);
  if (requested.length === 0) return "a node that the scheduling rules allow";
  return requested.map(([name, quantity]) => `${name}: ${quantity}`).join(", ");
}

/** Extended resources have a domain in their names; cpu, memory and storage do not. */
function devicesOf(pod: Pod): [string, string][] {
  return requestsOf(pod).filter(([name]) => name.includes("/"));
}

/** Names and quantities of resources, for each container. */
export function requestsOf({ spec }: Pick<PodTemplate, "spec">): [string, string][] {
  return spec.containers.flatMap(({ resources }) =>
    Object.entries({ ...resources?.limits, ...resources?.requests }),
  );
}

function problemOf(pod: Pod): PodProblem | undefined {
  const { name } = pod.metadata;
  const { phase, reason, message = "" } = pod.status ?? {};
  // Only an Event has the reason why the node stopped the pod.
  if (phase === "Succeeded") return undefined;
  if (phase === "Failed") {
    if (reason === "Preempting" || reason === "NodeShutdown") return undefined;
    if (reason === "Evicted")
      return { code: "PodEvicted", message: truncate(`${name} was evicted: ${message}`, MAX_TEXT) };
    return { code: "PodFailed", message: truncate(`${name} failed: ${reason ?? ""} ${message}`, MAX_TEXT) };
  }
  const { initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {};
  const sidecars = pod.spec.initContainers?.filter(({ restartPolicy }) => restartPolicy === "Always") ?? [];
  const runsOnce = (one: ContainerStatus) => sidecars.every(({ name: sidecar }) => sidecar !== one.name);
  const problems = [
    ...initContainerStatuses.map((one) => containerProblem(pod, one, runsOnce(one))),
    ...containerStatuses.map((one) => containerProblem(pod, one, false)),
  ];
  return problems.find((one) => one !== undefined);
}

function containerProblem(pod: Pod, container: ContainerStatus, runsOnce: boolean): PodProblem | undefined {
  const { reason = "", message = "" } = container.state?.waiting ?? {};
  const subject = `${container.name} of ${pod.metadata.name}`;
  if (isImageFailure(reason)) return imageProblem(container.name, subject, { reason, message });
  if (/^CreateContainer(Config)?Error$|^RunContainerError$/.test(reason))
    return { code: "PodConfigInvalid", message: truncate(`${subject}: ${reason}: ${message}`, MAX_TEXT) };
  const failed = fetchFailure(container);
  if (failed !== undefined)
    return { code: failed.code, message: truncate(`${subject}: ${failed.message}`, MAX_TEXT) };
  const ended = crashOf(container, runsOnce);
  if (ended === undefined && reason !== "CrashLoopBackOff") return undefined;
  const { exitCode, reason: endReason = "", message: output = "" } = ended ?? {};
  const end =
    exitCode === undefined ? "" : `: exit code ${exitCode}${endReason === "" ? "" : ` (${endReason})`}`;
  const { restartCount = 0 } = container;
  const event = restartCount === 0 ? "exited" : `has restarted ${restartCount} times`;
  const text = `${subject} ${event}${end}${output === "" ? "" : `: ${decisiveLine(output, exitCode)}`}`;
  const remedy =
    endReason === "OOMKilled"
      ? oomRemedy(pod, container.name)
      : `read its log: kubectl logs ${pod.metadata.name} -c ${container.name} --previous`;
  return { code: "PodCrashing", message: truncate(text, MAX_TEXT), remedy };
}

/**
 * A kubelet alternates between the error and its back-off, which has the error in its message. Both give the same text, so that the
 * status does not change with each attempt.
 */
function imageProblem(
  container: string,
  subject: string,
  { reason, message }: { readonly reason: string; readonly message: string },
): PodProblem {
  const [, error = reason, detail = message] =
    /^Back-off pulling image "[^"]*": (\w+): (.*)$/s.exec(message) ?? [];
  const problem = {
    code: "ImageUnavailable" as const,
    message: truncate(`${subject}: ${error}: ${detail}`, MAX_TEXT),
  };
  // The image of the program that fetches weights is that of the controller.
  return container.startsWith(FETCH_CONTAINER)
    ? { ...problem, remedy: errorCatalog.DownloadImageUnavailable.do }
    : problem;
}

/** Engines have a memory limit only if someone sets one. */
function oomRemedy({ spec }: Pod, container: string): string {
  if (container.startsWith(FETCH_CONTAINER)) return "raise spec.resources.memory of the Model";
  const limit = spec.containers.find(({ name }) => name === container)?.resources?.limits?.memory;
  if (limit === undefined)
    return "its node ran out of memory: set spec.resources.memory to the memory that the engine needs, so that pods are scheduled on nodes with enough memory, or lower contextSize or parallelSlots";
  return `raise its memory limit of ${limit}, which spec.resources.limits of the service, a flavor, a LimitRange of the namespace or an admission webhook has set, or lower contextSize or parallelSlots; then delete the pod`;
}

/**
 * The terminated state of a container that has not started since. During the back-off, a kubelet reports it as the state of an
 * init container. For other containers it is the state for a few seconds, and then the last state while the container waits and
 * starts. The result is the same in all these phases, until the container has started, or an init container has succeeded.
 */
function crashOf({ started, state = {}, lastState }: ContainerStatus, runsOnce: boolean) {
  const end = state.terminated ?? lastState?.terminated;
  // `started` is true for an init container as soon as it runs.
  if (runsOnce) return end?.exitCode === 0 ? undefined : end;
  return state.running !== undefined && started === true ? undefined : end;
}

/** The failure of the last attempt, also while the next attempt runs. */
function fetchFailure({ name, state, lastState }: ContainerStatus): FetchFailed | undefined {
  if (!name.startsWith(FETCH_CONTAINER)) return undefined;
  const result = parseFetchResult((state?.terminated ?? lastState?.terminated)?.message);
  return result === undefined || isFetched(result) ? undefined : result;
}

const NAMES_ERROR = /(?:Error|\berror|Exception)\b.*[:,]/;
/** Exit codes above this mean a signal, whose cause is not in the output. */
const SIGNALS = 128;

/** Prefers the line with the error, because engines print warnings or help after it. */
function decisiveLine(text: string, exitCode = 0): string {
  const lines = text.trim().split("\n");
  const named = exitCode > SIGNALS ? undefined : lines.findLast((line) => NAMES_ERROR.test(line));
  return (named ?? lines.at(-1) ?? "").trim().replace(LOG_PREFIX, "");
}

/** Prefix of the log lines of some engines: time since the start, and level. */
const LOG_PREFIX = /^\d+\.\d\d\.\d{3}\.\d{3} [A-Z] /;

function conditionOf({ status }: Pod, type: string) {
  return status?.conditions?.find((condition) => condition.type === type);
}

export function createdMs({ metadata }: Pod): number {
  return Date.parse(metadata.creationTimestamp ?? "") || 0;
}
