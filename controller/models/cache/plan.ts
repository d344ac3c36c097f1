/** Plans the next steps and `status.cache` of a Model from its volume and its download Job. Pure. */

import { type ErrorCode, errorCatalog } from "../../../src/api/errors.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import type { Model, ModelStatus } from "../../../src/api/model.ts";
import {
  hasPodEnded,
  type Job,
  type PersistentVolumeClaim,
  type Pod,
} from "../../../src/kube/workload-objects.ts";
import { type Fetched, isFetched } from "../../../src/models/fetch-result.ts";
import { formatBytes } from "../../../src/util/bytes.ts";
import { defined } from "../../../src/util/defined.ts";
import { isoSeconds } from "../../../src/util/iso-seconds.ts";
import { isMountedByNodes, isSizedByModel } from "../../pods/workload/cache-claim.ts";
import type { CacheSettings } from "../../pods/workload/contract.ts";
import {
  ANNOTATION_ATTEMPT,
  ANNOTATION_FETCH_KEY,
  ANNOTATION_GENERATION,
  ANNOTATION_IMAGE_KEY,
  ANNOTATION_SECRET_VERSION,
  type CacheVolumeSpec,
  type Download,
  downloadKey,
  imageKey,
} from "../../pods/workload/model-cache.ts";
import { type Filler, filledByPods, JOB, judgeFiller, type ObservedStorage, UNDECIDED } from "./filler.ts";
import {
  type CacheProblem,
  cacheProblem,
  describeFailure,
  fetchEnd,
  isHeldBySidecar,
  jobEndOf,
  lastFailure,
  needsOtherSecret,
  newest,
  newestResult,
  podStartProblem,
} from "./job.ts";
import type { DownloadProgress } from "./progress.ts";
import { claimCapacityOf, delayAfter, isResized, retryDelay } from "./retry.ts";
import type { ObservedClaim } from "./watches.ts";

export interface CacheObservation {
  readonly model: Model;
  readonly volume: CacheVolumeSpec;
  readonly settings: CacheSettings;
  /** Commit that the Model is pinned to. */
  readonly revision?: string;
  readonly claim: ObservedClaim;
  /** Storage behind the claim, if it decides what fills the claim. */
  readonly storage?: ObservedStorage;
  /** True if a service uses the Model beside its main Model, as draft, projector or adapter. */
  readonly isBeside?: boolean;
  /** The reason why an unbound claim will not be bound. */
  readonly claimProblem?: CacheProblem;
  readonly job?: Job;
  /** Pods of the Job. */
  readonly pods: readonly Pod[];
  /** The reason why the Job has no pod. */
  readonly jobProblem?: CacheProblem;
  /** Current resource version of the source's Secret, if the Job failed because the source rejected its credentials. */
  readonly secretVersion?: string;
  /** True if the status has the result of the controller's own inspection of the source, for this spec. */
  readonly isSourceKnown: boolean;
  readonly progress?: DownloadProgress;
  readonly nowMs: number;
}

export type CacheStep =
  | { readonly do: "createClaim" }
  | { readonly do: "createJob"; readonly download: Download }
  | { readonly do: "removeJob"; readonly job: Job; readonly because: string };

export interface CacheState {
  readonly status: NonNullable<ModelStatus["cache"]>;
  readonly problem?: CacheProblem;
  /** The result of a Job that has just finished. Later it is in the Model's status. */
  readonly fetched?: Fetched;
  /** True until it is known what fills the claim. Meanwhile the controller reads the source, whose size the claim needs. */
  readonly isUndecided?: boolean;
}

export interface CachePlan {
  readonly state: CacheState;
  readonly steps: readonly CacheStep[];
  readonly recheckAfterMs?: number;
  /** True if the source rejected the Job's credentials. The Secret is then read periodically until it changes. */
  readonly waitsForSecret?: boolean;
  /** The pod that downloads now. */
  readonly running?: Pod;
}

/** Polling interval for an unbound claim or a Job without a pod, because the reason is not in a watched object. */
export const RECHECK_MS = 15_000;
const WITHOUT_IMAGE = cacheProblem("ModelCacheNotConfigured", "the controller was started without --image");

/** Total: every observation has a state. */
export function planCache(seen: CacheObservation): CachePlan {
  const filler = fillerOf(seen);
  const planned = planClaim(seen, filler) ?? planDownload(seen, filler);
  const isUndecided =
    filler.by === "undecided" && seen.claim.at !== "unknown" && seen.settings.image !== undefined;
  const plan = isUndecided ? { ...planned, state: { ...planned.state, isUndecided } } : planned;
  const { phase, filledBy } = plan.state.status;
  // A claim that pods fill may have no pod for months. Problems with mounting it are in the status of the pod.
  const isUnbound =
    seen.claim.at === "present" && !isBound(seen.claim) && phase !== "Ready" && filledBy !== "Pods";
  const times = [plan.recheckAfterMs, isUnbound ? RECHECK_MS : undefined].filter(
    (time) => time !== undefined,
  );
  return times.length === 0 ? plan : { ...plan, recheckAfterMs: Math.min(...times) };
}

function planDownload(seen: CacheObservation, filler: Filler): CachePlan {
  const { claim, volume, model, revision, settings, job } = seen;
  const uid = claim.at === "present" ? (claim.claim.metadata.uid ?? "") : "";
  const key = downloadKey(model, volume, uid, revision);
  const before = model.status?.cache;
  if (before?.phase === "Ready" && before.key === key) return { state: { status: before }, steps: [] };
  const place = { ...placeOf(volume), key, ...failuresOf(model, key) };
  if (settings.image === undefined) return pending(place, WITHOUT_IMAGE);
  if (filler.by === "Pods") return planPods(seen, place, filler.because);
  if (filler.by === "undecided")
    return {
      state: waiting(place, "BindingClaim", `waiting until PVC ${place.claimName} is bound`),
      steps: [],
    };
  const isOnOneNode = isOnOneNodeClaim(seen);
  const placeOfJob = isOnOneNode ? { ...place, singleNode: true } : place;
  const delayed = isJobOf(key, job) ? undefined : planDelay(seen, placeOfJob);
  if (delayed !== undefined) return delayed;
  if (job !== undefined)
    return isOnOneNode && isWithoutNode(seen, job)
      ? planHandover(seen, job, place)
      : planJob(seen, job, placeOfJob);
  const download: Download = {
    model,
    volume,
    key,
    attempt: (place.attempts ?? 0) + 1,
    revision,
    capacity: claimCapacityOf(claim),
    isOnOneNode,
  };
  const state = waiting(placeOfJob, "StartingDownload", "creating the download Job");
  return { state, steps: [{ do: "createJob", download }] };
}

/** Failures of earlier Jobs. Those Jobs may have been replaced by another Model that uses the same folder. A new spec is tried immediately. */
function failuresOf({ metadata, status }: Model, key: string): Pick<BaseStatus, "attempts" | "failedAt"> {
  const { cache, observedGeneration } = status ?? {};
  if (cache?.key !== key) return {};
  const { attempts, failedAt } = cache;
  const isSameSpec = observedGeneration === metadata.generation;
  return { attempts, failedAt: isSameSpec ? failedAt : undefined };
}

function isJobOf(key: string, job: Job | undefined): boolean {
  const { annotations, deletionTimestamp } = job?.metadata ?? {};
  return annotations?.[ANNOTATION_FETCH_KEY] === key && deletionTimestamp === undefined;
}

/** The delay after a failure whose Job no longer exists. */
function planDelay({ model, nowMs }: CacheObservation, place: BaseStatus): CachePlan | undefined {
  const { attempts, failedAt } = place;
  const before = model.status?.cache;
  if (before === undefined || failedAt === undefined) return undefined;
  const waitMs = retryDelay(attempts ?? 1, Date.parse(failedAt), nowMs);
  if (waitMs <= 0) return undefined;
  const { reason, message } = before;
  const problem = reason in errorCatalog ? { code: reason as ErrorCode, message } : undefined;
  return { state: { status: before, problem }, steps: [], recheckAfterMs: waitMs };
}

/** True if the storage behind the claim decides what fills it, or is the reason that the status lacks. */
export function dependsOnStorage(seen: Omit<CacheObservation, "storage">): boolean {
  return knownFiller(seen) === undefined;
}

/** A claim that pods fill keeps being filled by them, so that no pod is replaced and none writes beside a Job. */
function fillerOf(seen: CacheObservation): Filler {
  const known = knownFiller(seen);
  if (known !== undefined || seen.claim.at !== "present" || seen.storage === undefined)
    return known ?? UNDECIDED;
  const judged = judgeFiller(seen.claim.claim, seen.storage);
  const isStarted = earlierOn(seen)?.filledBy === "Pods" && judged.by !== "Pods";
  return isStarted ? filledByPods("pods have begun to fill it") : judged;
}

function knownFiller(seen: Omit<CacheObservation, "storage">): Filler | undefined {
  const { claim, volume, settings, job, isBeside } = seen;
  if (volume.source.kind === "pvc") return JOB;
  if (claim.at !== "present")
    return volume.isOurs && !isMountedByNodes([settings.cacheAccessMode]) ? UNDECIDED : JOB;
  if (!isOnOneNodeClaim(seen)) return JOB;
  const before = earlierOn(seen);
  if (before?.phase === "Ready") return filledByPods("it holds earlier weights, which pods may still use");
  if (before?.filledBy === "Pods" && before.reason === BY_PODS) return { by: "Pods" };
  if (job !== undefined && jobEndOf(job)?.at !== "failed") return JOB;
  return isBeside === true
    ? filledByPods("a service uses the Model beside its main Model, whose claim decides the node of its pods")
    : undefined;
}

/** The status, if it is about the same folder of the same claim. */
function earlierOn({ model, volume }: Pick<CacheObservation, "model" | "volume">) {
  const { cache } = model.status ?? {};
  return cache?.claimName === volume.claimName && cache.folder === volume.folder ? cache : undefined;
}

/** True if only one node at a time can mount the volume that is to be filled. */
function isOnOneNodeClaim({ claim, volume }: Pick<CacheObservation, "claim" | "volume">): boolean {
  return (
    volume.source.kind !== "pvc" && claim.at === "present" && !isMountedByNodes(claim.claim.spec.accessModes)
  );
}

const BY_PODS = "DownloadedByPods" satisfies ErrorCode;

/** `because` is absent if the status has the reason. */
function planPods(seen: CacheObservation, place: BaseStatus, because?: string): CachePlan {
  const message = `each pod that mounts PVC ${place.claimName} downloads the missing files, and all of these pods run on one node: ${because}`;
  const { message: before = message } = earlierOn(seen) ?? {};
  const status = { ...place, filledBy: "Pods" as const };
  return { state: waiting(status, BY_PODS, because === undefined ? before : message), steps: [] };
}

/** True if the scheduler has found no node for the pod of this Model's Job. The service's pods may tolerate more taints. */
function isWithoutNode({ model, pods }: CacheObservation, job: Job): boolean {
  const pod = newest(pods);
  const isOwn = job.metadata.ownerReferences?.some(({ uid }) => uid === model.metadata.uid) ?? false;
  if (!isOwn || isBeingDeleted(job) || jobEndOf(job) !== undefined || pod === undefined || hasPodEnded(pod))
    return false;
  const { code } = podStartProblem(pod) ?? {};
  return code === "DownloadUnschedulable" || code === "UnbindableModelCache";
}

function planHandover(seen: CacheObservation, job: Job, place: BaseStatus): CachePlan {
  const because = "no node can run the pod of the download Job";
  return { ...planPods(seen, place, because), steps: [{ do: "removeJob", job, because }] };
}

/** The fields of the status that do not depend on its phase. */
type BaseStatus = Omit<CacheState["status"], "phase" | "reason" | "message">;

function placeOf({ claimName, folder }: CacheVolumeSpec): BaseStatus {
  return { claimName, folder };
}

/** Undefined if the claim can be used. */
function planClaim(seen: CacheObservation, filler: Filler): CachePlan | undefined {
  const { claim, volume, model, claimProblem } = seen;
  const place: BaseStatus = { ...placeOf(volume), ...(filler.by === "Pods" ? { filledBy: "Pods" } : {}) };
  const name = volume.claimName;
  switch (claim.at) {
    case "unknown": {
      const before = model.status?.cache;
      const isSame = before?.claimName === name && before.folder === volume.folder;
      const state = isSame ? { status: before } : waiting(place, "ReadingClaim", `reading PVC ${name}`);
      return { state, steps: [] };
    }
    case "absent":
      return planAbsent(seen, filler);
    case "present": {
      const problem = claimProblem ?? claimProblemOf(claim.claim, volume);
      return problem && pending(place, problem, isBound(claim) ? undefined : RECHECK_MS);
    }
    default:
      return claim satisfies never;
  }
}

function planAbsent(seen: CacheObservation, filler: Filler): CachePlan {
  const { volume, model, settings, isSourceKnown } = seen;
  const { claimName, isOurs } = volume;
  const place = placeOf(volume);
  if (isOurs && settings.image === undefined) return pending(place, WITHOUT_IMAGE);
  const where = `${model.metadata.namespace}/${claimName}`;
  if (!isOurs) return pending(place, cacheProblem("VolumeClaimNotFound", `PVC ${where} does not exist`));
  if (filler.by === "undecided" && isSizedByModel(model, volume) && !isSourceKnown)
    return { state: waiting(place, "ReadingSource", "reading the size of the weights"), steps: [] };
  return {
    state: waiting(place, "CreatingClaim", `creating PVC ${claimName}`),
    steps: [{ do: "createClaim" }],
  };
}

function claimProblemOf(claim: PersistentVolumeClaim, { source }: CacheVolumeSpec): CacheProblem | undefined {
  const { status } = claim;
  const { name } = claim.metadata;
  if (isBeingDeleted(claim)) return cacheProblem("VolumeClaimNotFound", `PVC ${name} is being deleted`);
  if (status?.phase === "Lost")
    return cacheProblem("UnbindableModelCache", `the volume of PVC ${name} no longer exists`);
  // The claim of a pvc:// source already has the weights, so it must be bound. Other claims may wait for their first consumer.
  if (status?.phase === "Bound" || source.kind !== "pvc") return undefined;
  return cacheProblem("VolumeClaimPending", `PVC ${name} is not bound to a volume`);
}

function isBound(seen: ObservedClaim): boolean {
  return seen.at === "present" && seen.claim.status?.phase === "Bound";
}

function planJob(seen: CacheObservation, job: Job, place: BaseStatus): CachePlan {
  const { metadata } = job;
  if (isBeingDeleted(job))
    return {
      state: waiting(place, "WaitingForDownload", `Job ${metadata.name} is being deleted`),
      steps: [],
    };
  const end = jobEndOf(job);
  const isOwn = metadata.ownerReferences?.some(({ uid }) => uid === seen.model.metadata.uid) ?? false;
  const isSameSpec =
    metadata.annotations?.[ANNOTATION_GENERATION] === String(seen.model.metadata.generation ?? 0);
  if (metadata.annotations?.[ANNOTATION_FETCH_KEY] !== place.key)
    return isOwn
      ? restart(place, job, "it downloads other content")
      : planOtherJob(seen, job, place, "it downloads other content");
  if (isOwn && !isSameSpec && end?.at !== "complete")
    return restart(place, job, "the spec of the Model changed");
  return planResult(seen, job, isOwn, place);
}

function planResult(seen: CacheObservation, job: Job, isOwn: boolean, place: BaseStatus): CachePlan {
  const { metadata } = job;
  const end = jobEndOf(job);
  const blockedPod = end === undefined ? newest(seen.pods.filter(isHeldBySidecar)) : undefined;
  if (blockedPod !== undefined) return planHeldBySidecar(seen, job, blockedPod, place);
  // The pod watch may lag behind the Job watch, and later events bring the results.
  if (end === undefined || !seen.pods.every(hasPodEnded)) {
    const plan = planActive(seen, place);
    const isStuck = plan.state.problem?.code === "DownloadImageUnavailable" && plan.running === undefined;
    return isStuck && metadata.annotations?.[ANNOTATION_IMAGE_KEY] !== imageKey(seen.settings)
      ? restart(place, job, "the controller's image has changed", plan.state.problem)
      : plan;
  }
  const fetched = end.at === "complete" ? newestResult(seen.pods, isFetched) : undefined;
  if (fetched !== undefined) return downloaded(seen, fetched, place);
  // The other Model's Job may have had less memory, or run on other nodes.
  if (!isOwn && place.attempts === undefined)
    return planOtherJob(seen, job, place, "it failed for another Model");
  return planFailed(seen, job, end.atMs, place);
}

function downloaded({ volume }: CacheObservation, fetched: Fetched, place: BaseStatus): CachePlan {
  const { file, mmproj } = fetched;
  const status = {
    ...withoutFailures(place),
    phase: "Ready" as const,
    reason: "Downloaded",
    message: volume.folder === "" ? "the weights are on the volume" : `downloaded to PVC ${place.claimName}`,
    file,
    mmproj,
    bytes: fetched.sizeBytes,
    totalBytes: fetched.sizeBytes,
  };
  return { state: { status, fetched }, steps: [] };
}

/** Without this, the Job would finish only at its deadline, a day later. */
function planHeldBySidecar(seen: CacheObservation, job: Job, pod: Pod, place: BaseStatus): CachePlan {
  const fetched = newestResult([pod], isFetched);
  if (fetched === undefined)
    return planFailed(seen, job, Date.parse(fetchEnd(pod)?.finishedAt ?? "") || 0, place);
  const because = "it is complete, and another container keeps its pod running";
  return { ...downloaded(seen, fetched, place), steps: [{ do: "removeJob", job, because }] };
}

/** The Model that owns the Job reads the result first. Afterwards another Model may replace the Job. */
function planOtherJob({ nowMs }: CacheObservation, job: Job, place: BaseStatus, because: string): CachePlan {
  const { metadata } = job;
  const end = jobEndOf(job);
  const waitMs = end && Math.min(RECHECK_MS, end.atMs + RECHECK_MS - nowMs);
  if (waitMs !== undefined && waitMs <= 0) return restart(place, job, because);
  const message = `waiting for Job ${metadata.name}, which downloads files of the source for another Model`;
  return { state: waiting(place, "WaitingForDownload", message), steps: [], recheckAfterMs: waitMs };
}

function planActive(seen: CacheObservation, place: BaseStatus): CachePlan {
  const { pods, jobProblem, progress } = seen;
  const pod = newest(pods.filter((one) => !hasPodEnded(one)));
  const failure = lastFailure(pods);
  const running = pod?.status?.phase === "Running" ? pod : undefined;
  const known = knownBytes(seen.model, place);
  // Until an attempt gets further than the last one, the last failure is reported.
  if (running !== undefined && (failure === undefined || (progress?.bytes ?? 0) > (known.bytes ?? 0))) {
    const status = {
      ...place,
      phase: "Downloading" as const,
      reason: "Downloading",
      message: describeProgress(progress ?? known),
      ...(progress ?? known),
    };
    return { state: { status: defined(status), problem: failure }, steps: [], running };
  }
  const problem = (pod === undefined ? jobProblem : podStartProblem(pod)) ?? failure;
  const state =
    problem === undefined
      ? waiting(place, "StartingDownload", "waiting for the pod of the download Job")
      : problemState(defined({ ...place, ...known }), problem, "Pending");
  return { state, steps: [], running, recheckAfterMs: pod === undefined ? RECHECK_MS : undefined };
}

/** Progress of this download so far. */
function knownBytes({ status }: Model, { key }: BaseStatus): Partial<DownloadProgress> {
  const { cache } = status ?? {};
  return cache?.key === key ? defined({ bytes: cache?.bytes, totalBytes: cache?.totalBytes }) : {};
}

/** Also handles a Job that completed without a result: a new Job finds the files and reports them. */
function planFailed(
  { claim, model, pods, nowMs, secretVersion }: CacheObservation,
  job: Job,
  failedAtMs: number,
  place: BaseStatus,
): CachePlan {
  const attempts = Number(job.metadata.annotations?.[ANNOTATION_ATTEMPT] ?? 1);
  const result = newestResult(pods, (one) => !isFetched(one));
  const problem = describeFailure(result, job, newest(pods));
  const waitMs = retryDelay(attempts, failedAtMs, nowMs);
  const failed = { ...place, attempts, failedAt: isoSeconds(failedAtMs) };
  const tried = job.metadata.annotations?.[ANNOTATION_SECRET_VERSION];
  const isOtherSecret = tried !== undefined && secretVersion !== undefined && tried !== secretVersion;
  if (isOtherSecret) return restart(withoutFailures(place), job, "the Secret of the source changed", problem);
  if (problem.code === "DiskFull" && isResized(claim, job))
    return restart(withoutFailures(place), job, "the PVC was resized", problem);
  if (waitMs <= 0) return restart(failed, job, "it failed, and its delay has elapsed", problem);
  const at = isoSeconds(failedAtMs + delayAfter(attempts));
  const shown = { ...problem, message: `${problem.message}; will be retried after ${at}` };
  const phase = result !== undefined && !isFetched(result) && result.isRetryable ? "Pending" : "Failed";
  const waitsForSecret = needsOtherSecret(model, job, pods);
  return { state: problemState(failed, shown, phase), steps: [], recheckAfterMs: waitMs, waitsForSecret };
}

function withoutFailures({ attempts: _, failedAt: __, ...place }: BaseStatus): BaseStatus {
  return place;
}

function restart(place: BaseStatus, job: Job, because: string, problem?: CacheProblem): CachePlan {
  const message = `replacing Job ${job.metadata.name}: ${because}`;
  return {
    state: { ...waiting(place, "StartingDownload", message), problem },
    steps: [{ do: "removeJob", job, because }],
  };
}

function pending(place: BaseStatus, problem: CacheProblem, recheckAfterMs?: number): CachePlan {
  return { state: problemState(place, problem, "Pending"), steps: [], recheckAfterMs };
}

/** The state of a download that cannot continue for now. */
export function problemState(
  place: BaseStatus,
  problem: CacheProblem,
  phase: "Pending" | "Failed",
): CacheState {
  return { status: { ...place, phase, reason: problem.code, message: problem.message }, problem };
}

function waiting(place: BaseStatus, reason: string, message: string): CacheState {
  return { status: { ...place, phase: "Pending", reason, message } };
}

function describeProgress({ bytes, totalBytes = 0 }: Partial<DownloadProgress>): string {
  if (bytes === undefined) return "downloading";
  if (totalBytes === 0) return `downloading: ${formatBytes(bytes)}`;
  const percent = Math.floor((100 * bytes) / totalBytes);
  return `downloading: ${formatBytes(bytes)} of ${formatBytes(totalBytes)} (${percent}%)`;
}
