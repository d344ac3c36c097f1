/** Reads the pods of a service: how many serve, what the others wait for, and what is wrong with them. Pure. */
import type { ErrorCode } from "../../../src/api/errors.ts";
import { LABEL_MOUNTS } from "../../../src/api/group.ts";
import { ENGINES } from "../../../src/engines/registry.ts";
import type { ContainerStatus, Pod } from "../../../src/kube/workload-objects.ts";
import { type FetchFailed, isFetched, parseFetchResult } from "../../../src/models/fetch-result.ts";
import { truncate } from "../../../src/util/text.ts";
import { ENGINE_CONTAINER } from "../../workload/container.ts";
import { FETCH_CONTAINER } from "../../workload/model-cache.ts";
import type { PodAffinity } from "../../workload/pod.ts";
import { KEY_VOLUME } from "../../workload/volumes.ts";

/** Pods that the scheduler can bind to no node. */
export interface Unscheduled {
  readonly code: Extract<
    ErrorCode,
    "InsufficientGPU" | "InsufficientResources" | "UnbindableModelCache" | "PodUnschedulable"
  >;
  /** As in `nvidia.com/gpu: 2`: what one pod asks for, and for how many of them. */
  readonly waitingFor: string;
  /** The scheduler's own sentence. */
  readonly message: string;
  readonly pods: number;
  /** Of the pod's PriorityClass. */
  readonly priority: number;
  /** Wall-clock milliseconds: since when the first of them waits. */
  readonly sinceMs: number;
}

export interface PodProblem {
  /** Of an init container that fetches the weights: what it reported. */
  readonly code: ErrorCode;
  readonly message: string;
  /** Where it is another than the catalog's. */
  readonly remedy?: string;
}

export interface ObservedPods {
  /** Ready and not being deleted. */
  readonly ready: number;
  /** Not being deleted. */
  readonly live: number;
  readonly unscheduled?: Unscheduled;
  readonly problem?: PodProblem;
  /** Pods whose init containers are fetching the weights. */
  readonly fetching: number;
  /** Names of those whose engines ask for no API key. */
  readonly keyless: readonly string[];
}

const MAX_TEXT = 1_000;
const ENDED = new Set(["Succeeded", "Failed"]);

/** Total: what a pod lacks says nothing. */
export function readPods(pods: readonly Pod[]): ObservedPods {
  const live = pods.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  const unscheduled = unscheduledOf(live.filter(isUnscheduled));
  // Those that have finished are replaced already: what is wrong with the replacements says more.
  const byEnd = [...live.filter((pod) => !hasEnded(pod)), ...live.filter((pod) => isLastEnd(pod, live))];
  const problem = byEnd.map(problemOf).find((one) => one !== undefined);
  return {
    ready: live.filter(isReadyPod).length,
    live: live.filter((pod) => !hasEnded(pod)).length,
    fetching: live.filter(isFetching).length,
    keyless: live.filter((pod) => !hasEnded(pod) && !hasKey(pod)).map(({ metadata }) => metadata.name),
    unscheduled,
    problem,
  };
}

export function isReadyPod(pod: Pod): boolean {
  return conditionOf(pod, "Ready")?.status === "True";
}

export function hasEnded({ status }: Pod): boolean {
  return ENDED.has(status?.phase ?? "");
}

/** It has finished, and no later pod is ready: what stopped it may still be the case. */
export function isLastEnd(pod: Pod, pods: readonly Pod[]): boolean {
  return hasEnded(pod) && !pods.some((other) => isReadyPod(other) && createdMs(other) > createdMs(pod));
}

/** The engine of a pod, as its node reports it. */
export function engineOf({ status }: Pod): ContainerStatus | undefined {
  return status?.containerStatuses?.find(({ name }) => name === ENGINE_CONTAINER);
}

/** For a pod that waits: others are preempted for this one, or this one is being deleted. */
export function isMakingRoom({ metadata, status }: Pod): boolean {
  return metadata.deletionTimestamp !== undefined || status?.nominatedNodeName !== undefined;
}

/** It reads its weights for the first time; one that has crashed is not worth protecting. */
export function isLoading(pod: Pod): boolean {
  const { started, restartCount = 0, state } = engineOf(pod) ?? {};
  const isRunning = state?.running !== undefined && pod.metadata.deletionTimestamp === undefined;
  return isRunning && started === false && restartCount === 0;
}

function isFetching({ status }: Pod): boolean {
  const { initContainerStatuses = [] } = status ?? {};
  return initContainerStatuses.some(
    ({ name, state }) => name.startsWith(FETCH_CONTAINER) && state?.running !== undefined,
  );
}

/** By what the builder puts in for the key, whichever runtime it is. */
function hasKey({ spec }: Pod): boolean {
  const variables = spec.containers.flatMap(({ env = [] }) => env.map(({ name }) => name));
  return (
    spec.volumes?.some(({ name }) => name === KEY_VOLUME) === true ||
    ENGINES.some(({ pod }) => pod?.apiKey?.by === "variable" && variables.includes(pod.apiKey.variable))
  );
}

function isUnscheduled(pod: Pod): boolean {
  const scheduled = conditionOf(pod, "PodScheduled");
  return scheduled?.status === "False" && scheduled.reason === "Unschedulable";
}

function unscheduledOf(pods: readonly Pod[]): Unscheduled | undefined {
  const [first] = [...pods].sort((a, b) => createdMs(a) - createdMs(b));
  if (first === undefined) return undefined;
  const said = conditionOf(first, "PodScheduled")?.message ?? "";
  const code = codeOf(first, said);
  const message = isTorn(first, said) ? `${TORN}: ${said}` : said;
  return {
    code,
    waitingFor: truncate(waitingFor(code, first, said), MAX_TEXT),
    message: truncate(message, MAX_TEXT),
    pods: pods.length,
    priority: first.spec.priority ?? 0,
    sinceMs: createdMs(first),
  };
}

/** By what the scheduler says it did not find: a device, another resource, the volume, else a rule. */
function codeOf(pod: Pod, message: string): Unscheduled["code"] {
  if (/persistentvolumeclaim|volume node affinity|unbound immediate|PersistentVolume/i.test(message))
    return "UnbindableModelCache";
  if (isTorn(pod, message)) return "PodUnschedulable";
  if (mountLabels(pod) > 0 && POD_AFFINITY.test(message)) return "UnbindableModelCache";
  const short = shortages(message);
  const devices = devicesOf(pod);
  if (devices.some(([name]) => short.includes(name)) || /cannot allocate all claims/.test(message))
    return "InsufficientGPU";
  return short.length > 0 ? "InsufficientResources" : "PodUnschedulable";
}

const POD_AFFINITY = /pod affinity rules/i;

/** Each with a rule that keeps it on the node of the pods that mount the same volume. */
function mountLabels({ metadata }: Pod): number {
  return Object.keys(metadata.labels ?? {}).filter((key) => key.startsWith(LABEL_MOUNTS)).length;
}

const TORN =
  "kube-scheduler places the pod only beside pods that match spec.affinity.podAffinity and mount the same model cache; make that affinity preferred, or use access mode ReadWriteMany or spec.modelCache.persistence Ephemeral";

/** Beside the rule for its volume it has required ones of the service, and one pod would have to match them all. */
function isTorn(pod: Pod, message: string): boolean {
  const { podAffinity } = (pod.spec.affinity ?? {}) as PodAffinity;
  const required = podAffinity?.requiredDuringSchedulingIgnoredDuringExecution ?? [];
  return POD_AFFINITY.test(message) && mountLabels(pod) > 0 && required.length > mountLabels(pod);
}

/** Names of resources, as in `3 Insufficient nvidia.com/gpu`. */
function shortages(message: string): string[] {
  return [...message.matchAll(/Insufficient ([A-Za-z0-9._/-]*[A-Za-z0-9])/g)].map(([, name = ""]) => name);
}

function waitingFor(code: Unscheduled["code"], pod: Pod, message: string): string {
  if (code === "UnbindableModelCache") return "a node that can mount the model cache";
  const short = new Set(shortages(message));
  const missing = requestsOf(pod).filter(([name]) => short.has(name));
  const asked = missing.length > 0 ? missing : devicesOf(pod);
  if (asked.length === 0) return "a node that the scheduling rules allow";
  return asked.map(([name, quantity]) => `${name}: ${quantity}`).join(", ");
}

/** Extended resources carry a domain; cpu, memory and storage do not. */
function devicesOf(pod: Pod): [string, string][] {
  return requestsOf(pod).filter(([name]) => name.includes("/"));
}

/** Quantities by resource, container by container. */
export function requestsOf({ spec }: Pod): [string, string][] {
  return spec.containers.flatMap(({ resources }) =>
    Object.entries({ ...resources?.limits, ...resources?.requests }),
  );
}

function problemOf(pod: Pod): PodProblem | undefined {
  const { name } = pod.metadata;
  const { phase, reason, message = "" } = pod.status ?? {};
  // Only Events say why its node has stopped it.
  if (phase === "Succeeded") return undefined;
  if (phase === "Failed") {
    if (reason === "Preempting" || reason === "NodeShutdown") return undefined;
    if (reason === "Evicted")
      return { code: "PodEvicted", message: truncate(`${name} was evicted: ${message}`, MAX_TEXT) };
    return { code: "PodFailed", message: truncate(`${name} failed: ${reason ?? ""} ${message}`, MAX_TEXT) };
  }
  const { initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {};
  const sidecars = pod.spec.initContainers?.filter(({ restartPolicy }) => restartPolicy === "Always") ?? [];
  const runsOnce = ({ name: of }: ContainerStatus) => sidecars.every((sidecar) => sidecar.name !== of);
  const problems = [
    ...initContainerStatuses.map((one) => containerProblem(pod, one, runsOnce(one))),
    ...containerStatuses.map((one) => containerProblem(pod, one, false)),
  ];
  return problems.find((one) => one !== undefined);
}

function containerProblem(pod: Pod, container: ContainerStatus, runsOnce: boolean): PodProblem | undefined {
  const { reason = "", message = "" } = container.state?.waiting ?? {};
  const where = `${container.name} of ${pod.metadata.name}`;
  if (/^(ErrImage|ImagePull|InvalidImageName|ImageInspectError|ErrImageNeverPull)/.test(reason))
    return { code: "ImageUnavailable", message: truncate(`${where}: ${reason}: ${message}`, MAX_TEXT) };
  if (/^CreateContainer(Config)?Error$|^RunContainerError$/.test(reason))
    return { code: "PodConfigInvalid", message: truncate(`${where}: ${reason}: ${message}`, MAX_TEXT) };
  const failed = fetchFailure(container);
  if (failed !== undefined)
    return { code: failed.code, message: truncate(`${where}: ${failed.message}`, MAX_TEXT) };
  const ended = crashOf(container, runsOnce);
  if (ended === undefined && reason !== "CrashLoopBackOff") return undefined;
  const { exitCode, reason: why = "", message: said = "" } = ended ?? {};
  const end = exitCode === undefined ? "" : `: exit code ${exitCode}${why === "" ? "" : ` (${why})`}`;
  const { restartCount = 0 } = container;
  const did = restartCount === 0 ? "exited" : `has restarted ${restartCount} times`;
  const text = `${where} ${did}${end}${said === "" ? "" : `: ${decisiveLine(said, exitCode)}`}`;
  const remedy =
    why === "OOMKilled"
      ? oomRemedy(pod, container.name)
      : `read its log: kubectl logs ${pod.metadata.name} -c ${container.name} --previous`;
  return { code: "PodCrashing", message: truncate(text, MAX_TEXT), remedy };
}

/** Our engines have no limit of their own. */
function oomRemedy({ spec }: Pod, container: string): string {
  if (container.startsWith(FETCH_CONTAINER)) return "raise spec.resources.memory of the Model";
  const limit = spec.containers.find(({ name }) => name === container)?.resources?.limits?.memory;
  if (limit === undefined)
    return "its node ran out of memory: set spec.resources.memory to what the engine needs, so that pods go where there is room, or lower contextSize or parallelSlots";
  return `raise its memory limit of ${limit}, which a LimitRange of the namespace or an admission webhook has set, or lower contextSize or parallelSlots; then delete the pod`;
}

/**
 * How a container ended that has not started since. A kubelet shows the end of an init container as its state during the whole
 * back-off, that of another one for a few seconds, and then as its last state while it waits and while it starts again: one
 * verdict for all of them, until the container has started, or an init container has succeeded.
 */
function crashOf({ started, state = {}, lastState }: ContainerStatus, runsOnce: boolean) {
  const end = state.terminated ?? lastState?.terminated;
  // An init container counts as started as soon as it runs.
  if (runsOnce) return end?.exitCode === 0 ? undefined : end;
  return state.running !== undefined && started === true ? undefined : end;
}

/** Of the last attempt, also while the next one runs. */
function fetchFailure({ name, state, lastState }: ContainerStatus): FetchFailed | undefined {
  if (!name.startsWith(FETCH_CONTAINER)) return undefined;
  const result = parseFetchResult((state?.terminated ?? lastState?.terminated)?.message);
  return result === undefined || isFetched(result) ? undefined : result;
}

const NAMES_ERROR = /(?:Error|\berror|Exception)\b.*[:,]/;
/** Exit codes above it mean a signal, of which no line can say why. */
const SIGNALS = 128;

/** After the line with the error, engines print warnings, or how to get help. */
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

function createdMs({ metadata }: Pod): number {
  return Date.parse(metadata.creationTimestamp ?? "") || 0;
}
