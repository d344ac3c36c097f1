/** Reads a download Job and its pods: whether it has finished, with what, and what keeps its pod from starting. Pure. */
import { defaultRemedy, type ErrorCode } from "../../../src/api/errors.ts";
import type { Model } from "../../../src/api/model.ts";
import type { Job, Pod } from "../../../src/kube/workload-objects.ts";
import {
  type FetchFailed,
  type FetchResult,
  isFetched,
  parseFetchResult,
} from "../../../src/models/fetch-result.ts";
import { truncate } from "../../../src/util/text.ts";
import { FETCH_CONTAINER } from "../../workload/model-cache.ts";

/** A cause from the catalog; the message says what to do as well. */
export interface CacheProblem {
  readonly code: ErrorCode;
  readonly message: string;
}

/** With the catalog's remedy behind it, without its command: that has placeholders. */
export function cacheProblem(code: ErrorCode, message: string): CacheProblem {
  return { code, message: `${truncate(message, 1_000)}; ${defaultRemedy(code).summary}` };
}

/** Undefined while it runs. `atMs` is wall-clock time of the API server. */
export function jobEndOf({
  status,
}: Job): { readonly at: "complete" | "failed"; readonly atMs: number } | undefined {
  for (const { type, status: holds, lastTransitionTime = "" } of status?.conditions ?? []) {
    if (holds !== "True") continue;
    if (type === "Complete") return { at: "complete", atMs: Date.parse(lastTransitionTime) || 0 };
    if (type === "Failed") return { at: "failed", atMs: Date.parse(lastTransitionTime) || 0 };
  }
  return undefined;
}

export function newest(pods: readonly Pod[]): Pod | undefined {
  return [...pods].sort((a, b) => createdAt(b).localeCompare(createdAt(a)))[0];
}

/** The newest termination message of this kind. */
export function newestResult<T extends FetchResult>(
  pods: readonly Pod[],
  isWanted: ((result: FetchResult) => result is T) | ((result: FetchResult) => boolean),
): T | undefined {
  const byAge = [...pods].sort((a, b) => createdAt(b).localeCompare(createdAt(a)));
  const results = byAge.map((pod) => parseFetchResult(fetchEnd(pod)?.message));
  return results.find((result): result is T => result !== undefined && isWanted(result));
}

/** Why a Job failed: by the result of its last pod, else by what Kubernetes says of both. */
export function describeFailure(result: FetchResult | undefined, job?: Job, pod?: Pod): CacheProblem {
  if (result !== undefined && !isFetched(result))
    return cacheProblem(result.code, (result as FetchFailed).message);
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

/** Failure of the newest pod that has failed. */
export function lastFailure(pods: readonly Pod[]): CacheProblem | undefined {
  const last = newest(pods.filter(({ status }) => status?.phase === "Failed"));
  const isFailure = (result: FetchResult) => !isFetched(result);
  return last && describeFailure(newestResult([last], isFailure), undefined, last);
}

const OF_SECRET: ReadonlySet<string> = new Set<ErrorCode>([
  "SourceUnauthorized",
  "SourceForbidden",
  "SourceSecretInvalid",
]);

/** The Job has failed, and only other credentials can help. */
export function needsOtherSecret(model: Model, job: Job, pods: readonly Pod[]): boolean {
  if (model.spec.sourceSecretRef === undefined || jobEndOf(job)?.at !== "failed") return false;
  return OF_SECRET.has(describeFailure(newestResult(pods, (one) => !isFetched(one))).code);
}

/** What keeps the pod from starting, where that is not just time. */
export function podStartProblem({ status }: Pod): CacheProblem | undefined {
  const scheduled = status?.conditions?.find(({ type }) => type === "PodScheduled");
  if (scheduled?.status === "False") return unschedulable(scheduled.message ?? "");
  const { reason = "", message = "" } = stateOf(status)?.waiting ?? {};
  if (/^(ErrImage|ImagePull|InvalidImageName|ImageInspectError)/.test(reason))
    return cacheProblem("DownloadImageUnavailable", `${reason}: ${message}`);
  // The only thing that the container's configuration refers to is the source's Secret.
  if (reason === "CreateContainerConfigError") return cacheProblem("SourceSecretInvalid", message);
  return undefined;
}

/** A volume that is about to be provisioned is no trouble: the scheduler retries once it is there. */
function unschedulable(message: string): CacheProblem | undefined {
  if (/unbound immediate PersistentVolumeClaims/i.test(message)) return undefined;
  const isVolume = /volume|persistent|pvc/i.test(message);
  return cacheProblem(isVolume ? "UnbindableModelCache" : "DownloadUnschedulable", message);
}

/** How the container that downloads ended; a mesh may have put others beside it. */
export function fetchEnd({ status }: Pod) {
  return stateOf(status)?.terminated;
}

/** The download has exited, and another container, such as the proxy of a mesh, keeps the pod running. */
export function isHeldBySidecar(pod: Pod): boolean {
  const others = pod.status?.containerStatuses?.filter(({ name }) => name !== FETCH_CONTAINER) ?? [];
  return fetchEnd(pod) !== undefined && others.some(({ state }) => state?.running !== undefined);
}

function stateOf(status: Pod["status"]) {
  return status?.containerStatuses?.find(({ name }) => name === FETCH_CONTAINER)?.state;
}

function createdAt({ metadata }: Pod): string {
  return metadata.creationTimestamp ?? "";
}
