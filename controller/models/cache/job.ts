/** Reads a download Job and its pods: the result, or the reason why its pod does not start. Pure. */
import { defaultRemedy, type ErrorCode } from "../../../src/api/errors.ts";
import type { Model } from "../../../src/api/model.ts";
import { isImageFailure, type Job, type Pod } from "../../../src/kube/workload-objects.ts";
import { type FetchResult, isFetched, parseFetchResult } from "../../../src/models/fetch-result.ts";
import { truncate } from "../../../src/util/text.ts";
import { FETCH_CONTAINER } from "../../pods/workload/model-cache.ts";
import { isAboutVolume, schedulingObstacle } from "../../pods/workload/scheduler-message.ts";
import { SECRET_ERRORS } from "../source/inspections.ts";

/** A problem from the error catalog, whose message includes the remedy. */
export interface CacheProblem {
  readonly code: ErrorCode;
  readonly message: string;
}

/** Appends the catalog's remedy to the message, without its command, which has placeholders. */
export function cacheProblem(code: ErrorCode, message: string): CacheProblem {
  return { code, message: `${truncate(message, 1_000)}; ${defaultRemedy(code).summary}` };
}

/** Undefined while the Job runs. `atMs` is wall-clock time of the API server. */
export function jobEndOf({ status }: Job) {
  const end = status?.conditions?.find(
    (one) => one.status === "True" && (one.type === "Complete" || one.type === "Failed"),
  );
  if (end === undefined) return undefined;
  const at = end.type === "Complete" ? ("complete" as const) : ("failed" as const);
  return { at, atMs: Date.parse(end.lastTransitionTime ?? "") || 0 };
}

export function newest(pods: readonly Pod[]): Pod | undefined {
  return newestFirst(pods)[0];
}

/** The newest result of the download container that matches. */
export function newestResult<T extends FetchResult>(
  pods: readonly Pod[],
  matches: ((result: FetchResult) => result is T) | ((result: FetchResult) => boolean),
): T | undefined {
  const results = newestFirst(pods).map((pod) => parseFetchResult(fetchEnd(pod)?.message));
  return results.find((result): result is T => result !== undefined && matches(result));
}

/** The reason why a Job failed: the result of its last pod, or else the status of the Job and the pod. */
export function describeFailure(result: FetchResult | undefined, job?: Job, pod?: Pod): CacheProblem {
  if (result !== undefined && !isFetched(result)) return cacheProblem(result.code, result.message);
  const end = pod === undefined ? undefined : fetchEnd(pod);
  const failed = job?.status?.conditions?.find(({ type, status }) => type === "Failed" && status === "True");
  const parts = [
    failed?.reason === undefined
      ? "the download Job left no result"
      : `the download Job failed (${failed.reason}): ${failed.message}`,
    end === undefined
      ? undefined
      : `its last pod ended with ${end.reason ?? "an error"}, exit code ${end.exitCode}`,
    pod?.status?.reason === undefined ? undefined : `${pod.status.reason}: ${pod.status.message ?? ""}`,
  ];
  return cacheProblem("DownloadFailed", parts.filter((part) => part !== undefined).join("; "));
}

/** The failure of the newest pod that has failed. */
export function lastFailure(pods: readonly Pod[]): CacheProblem | undefined {
  const last = newest(pods.filter(({ status }) => status?.phase === "Failed"));
  const isFailure = (result: FetchResult) => !isFetched(result);
  return last && describeFailure(newestResult([last], isFailure), undefined, last);
}

/** True if the Job has failed, and only other credentials can help. */
export function needsOtherSecret(model: Model, job: Job, pods: readonly Pod[]): boolean {
  if (model.spec.sourceSecretRef === undefined || jobEndOf(job)?.at !== "failed") return false;
  return SECRET_ERRORS.has(describeFailure(newestResult(pods, (one) => !isFetched(one))).code);
}

/** The problem that keeps the pod from starting; undefined if the pod only needs time. */
export function podStartProblem({ status }: Pod): CacheProblem | undefined {
  const scheduled = status?.conditions?.find(({ type }) => type === "PodScheduled");
  if (scheduled?.status === "False") return unschedulable(scheduled.message ?? "");
  const { reason = "", message = "" } = stateOf(status)?.waiting ?? {};
  if (isImageFailure(reason)) return cacheProblem("DownloadImageUnavailable", `${reason}: ${message}`);
  // The container's configuration refers to nothing but the source's Secret.
  if (reason === "CreateContainerConfigError") return cacheProblem("SourceSecretInvalid", message);
  return undefined;
}

/** A volume that is about to be provisioned is not a problem: the scheduler retries once the volume exists. */
function unschedulable(message: string): CacheProblem | undefined {
  if (schedulingObstacle(message) === "pendingVolume") return undefined;
  return cacheProblem(isAboutVolume(message) ? "UnbindableModelCache" : "DownloadUnschedulable", message);
}

/** The terminated state of the download container, which may not be the only container if a mesh adds others. */
export function fetchEnd({ status }: Pod) {
  return stateOf(status)?.terminated;
}

/** True if the download has exited, but another container, such as the proxy of a mesh, keeps the pod running. */
export function isHeldBySidecar(pod: Pod): boolean {
  const others = pod.status?.containerStatuses?.filter(({ name }) => name !== FETCH_CONTAINER) ?? [];
  return fetchEnd(pod) !== undefined && others.some(({ state }) => state?.running !== undefined);
}

function stateOf(status: Pod["status"]) {
  return status?.containerStatuses?.find(({ name }) => name === FETCH_CONTAINER)?.state;
}

export function newestFirst(pods: readonly Pod[]): readonly Pod[] {
  const createdAt = ({ metadata }: Pod) => metadata.creationTimestamp ?? "";
  return pods.toSorted((a, b) => createdAt(b).localeCompare(createdAt(a)));
}
