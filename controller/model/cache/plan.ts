/** From what is seen of a Model's volume and download Job to the next steps and the Model's `status.cache`. Pure. */

import { type ErrorCode, errorCatalog } from "../../../src/api/errors.ts";
import type { Model, ModelStatus } from "../../../src/api/model.ts";
import type { Job, PersistentVolumeClaim, Pod } from "../../../src/kube/workload-objects.ts";
import { type Fetched, isFetched } from "../../../src/models/fetch-result.ts";
import { formatBytes } from "../../../src/util/bytes.ts";
import { defined } from "../../../src/util/defined.ts";
import { isoSeconds } from "../../../src/util/iso-seconds.ts";
import { isMountedByNodes, isSizedByModel } from "../../workload/cache-claim.ts";
import type { CacheSettings } from "../../workload/contract.ts";
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
} from "../../workload/model-cache.ts";
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
  readonly wish: CacheVolumeSpec;
  readonly settings: CacheSettings;
  /** Commit that the Model is pinned to. */
  readonly revision?: string | undefined;
  readonly claim: ObservedClaim;
  /** Why a claim that is not bound will not be. */
  readonly claimTrouble?: CacheProblem | undefined;
  readonly job?: Job | undefined;
  /** Of this Job. */
  readonly pods: readonly Pod[];
  /** Why the Job has no pod. */
  readonly jobTrouble?: CacheProblem | undefined;
  /** Current version of the source's Secret, where the Job failed because its credentials were refused. */
  readonly secretVersion?: string | undefined;
  /** The status has what the controller's own reading of the source found, for this spec. */
  readonly isSourceKnown: boolean;
  readonly progress?: DownloadProgress | undefined;
  readonly nowMs: number;
}

export type CacheStep =
  | { readonly do: "createClaim" }
  | { readonly do: "createJob"; readonly download: Download }
  | { readonly do: "removeJob"; readonly job: Job; readonly because: string };

export interface CacheState {
  readonly status: NonNullable<ModelStatus["cache"]>;
  readonly trouble?: CacheProblem | undefined;
  /** What the Job reported, where it has just ended; else the Model's status has it. */
  readonly fetched?: Fetched | undefined;
}

export interface CachePlan {
  readonly state: CacheState;
  readonly steps: readonly CacheStep[];
  readonly recheckAfterMs?: number | undefined;
  /** The credentials of the Job were refused: its Secret is read again until it is another. */
  readonly waitsForSecret?: boolean;
  /** The pod that downloads now. */
  readonly running?: Pod | undefined;
}

/** A claim that is not bound and a Job without a pod have no watch of their own that says why. */
export const RECHECK_MS = 15_000;
const WITHOUT_IMAGE = cacheProblem("ModelCacheNotConfigured", "the controller was started without --image");

/** Total: every observation has a state. */
export function planCache(seen: CacheObservation): CachePlan {
  const plan = planClaim(seen) ?? planDownload(seen);
  const { phase, filledBy } = plan.state.status;
  // A claim that pods fill may have no pod for months; what keeps a pod from it is in the status of the pod.
  const mustLook =
    seen.claim.at === "present" && !isBound(seen.claim) && phase !== "Ready" && filledBy !== "Pods";
  const times = [plan.recheckAfterMs, mustLook ? RECHECK_MS : undefined].filter((time) => time !== undefined);
  return times.length === 0 ? plan : { ...plan, recheckAfterMs: Math.min(...times) };
}

function planDownload(seen: CacheObservation): CachePlan {
  const { claim, wish, model, revision, settings, job } = seen;
  const uid = claim.at === "present" ? (claim.claim.metadata.uid ?? "") : "";
  const key = downloadKey(model, wish, uid, revision);
  const before = model.status?.cache;
  if (before?.phase === "Ready" && before.key === key) return { state: { status: before }, steps: [] };
  const place = { ...placeOf(wish), key, ...failuresOf(model, key) };
  if (settings.image === undefined) return pending(place, WITHOUT_IMAGE);
  if (isFilledByPods(seen) && (job === undefined || jobEndOf(job)?.at === "failed"))
    return filledByPods(place);
  const delayed = isJobOf(key, job) ? undefined : planDelay(seen, place);
  if (delayed !== undefined) return delayed;
  if (job !== undefined) return planJob(seen, job, place);
  const download: Download = {
    model,
    wish,
    key,
    attempt: (place.attempts ?? 0) + 1,
    revision,
    capacity: claimCapacityOf(claim),
  };
  const state = waiting(place, "StartingDownload", "creating the download Job");
  return { state, steps: [{ do: "createJob", download }] };
}

/** Of Jobs that may be gone: another Model that downloads to the same folder has replaced them. A new spec is tried at once. */
function failuresOf({ metadata, status }: Model, key: string): Pick<Place, "attempts" | "failedAt"> {
  const { cache, observedGeneration } = status ?? {};
  if (cache?.key !== key) return {};
  const { attempts, failedAt } = cache;
  const isSameSpec = observedGeneration === metadata.generation;
  return {
    attempts,
    failedAt: failedAt === undefined || !isSameSpec ? undefined : failedAt,
  };
}

function isJobOf(key: string, job: Job | undefined): boolean {
  const { annotations, deletionTimestamp } = job?.metadata ?? {};
  return annotations?.[ANNOTATION_FETCH_KEY] === key && deletionTimestamp === undefined;
}

/** The delay after a failure, where no Job is there that has it. */
function planDelay({ model, nowMs }: CacheObservation, place: Place): CachePlan | undefined {
  const { attempts, failedAt } = place;
  const before = model.status?.cache;
  if (before === undefined || failedAt === undefined) return undefined;
  const waitMs = retryDelay(attempts ?? 1, Date.parse(failedAt), nowMs);
  if (waitMs <= 0) return undefined;
  const { reason, message } = before;
  const trouble = reason in errorCatalog ? { code: reason as ErrorCode, message } : undefined;
  return { state: { status: before, trouble }, steps: [], recheckAfterMs: waitMs };
}

/** A Job would decide which node the volume is on, without knowing which one has the GPU. A Job that runs may end. */
function isFilledByPods({ claim, wish: { source, isOurs }, settings }: CacheObservation): boolean {
  if (source.kind === "pvc") return false;
  if (claim.at === "present") return !isMountedByNodes(claim.claim.spec.accessModes);
  return isOurs && !isMountedByNodes([settings.cacheAccessMode]);
}

function filledByPods(place: Place): CachePlan {
  const message = `each pod that mounts claim ${place.claimName} downloads what is missing; all of them run on one node`;
  const state = waiting({ ...place, filledBy: "Pods" }, "DownloadedByPods", message);
  return { state, steps: [] };
}

/** What a status says whatever its phase. */
type Place = Omit<CacheState["status"], "phase" | "reason" | "message">;

function placeOf({ claimName, folder }: CacheVolumeSpec): Place {
  return { claimName, folder };
}

/** Undefined where the claim can be used. */
function planClaim(seen: CacheObservation): CachePlan | undefined {
  const { claim, wish, model, claimTrouble } = seen;
  const place: Place = { ...placeOf(wish), ...(isFilledByPods(seen) ? { filledBy: "Pods" } : {}) };
  const name = wish.claimName;
  switch (claim.at) {
    case "unknown": {
      const before = model.status?.cache;
      const isSame = before?.claimName === name && before.folder === wish.folder;
      const state = isSame ? { status: before } : waiting(place, "ReadingClaim", `reading claim ${name}`);
      return { state, steps: [] };
    }
    case "absent":
      return planAbsent(seen, place);
    case "present": {
      const trouble = claimTrouble ?? troubleOfClaim(claim.claim, wish);
      return trouble && pending(place, trouble, isBound(claim) ? undefined : RECHECK_MS);
    }
    default:
      return claim satisfies never;
  }
}

function planAbsent(seen: CacheObservation, place: Place): CachePlan {
  const { wish, model, settings, isSourceKnown } = seen;
  const { claimName, isOurs } = wish;
  if (isOurs && settings.image === undefined) return pending(placeOf(wish), WITHOUT_IMAGE);
  const where = `${model.metadata.namespace}/${claimName}`;
  if (!isOurs) return pending(place, cacheProblem("VolumeClaimNotFound", `claim ${where} does not exist`));
  if (place.filledBy === "Pods" && isSizedByModel(model, wish) && !isSourceKnown)
    return { state: waiting(place, "ReadingSource", "reading how large the weights are"), steps: [] };
  return {
    state: waiting(place, "CreatingClaim", `creating claim ${claimName}`),
    steps: [{ do: "createClaim" }],
  };
}

function troubleOfClaim(
  { metadata, status }: PersistentVolumeClaim,
  { source }: CacheVolumeSpec,
): CacheProblem | undefined {
  const { name, deletionTimestamp } = metadata;
  if (deletionTimestamp !== undefined)
    return cacheProblem("VolumeClaimNotFound", `claim ${name} is being deleted`);
  if (status?.phase === "Lost")
    return cacheProblem("UnbindableModelCache", `the volume of claim ${name} no longer exists`);
  // A claim of a pvc:// source has the weights already, so nothing of ours is its first consumer.
  if (status?.phase === "Bound" || source.kind !== "pvc") return undefined;
  return cacheProblem("VolumeClaimPending", `claim ${name} is not bound to a volume`);
}

function isBound(seen: ObservedClaim): boolean {
  return seen.at === "present" && seen.claim.status?.phase === "Bound";
}

function planJob(seen: CacheObservation, job: Job, place: Place): CachePlan {
  const { metadata } = job;
  if (metadata.deletionTimestamp !== undefined)
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
      ? restart(place, job, "it downloads something else")
      : otherModels(seen, job, place, "it downloads something else");
  if (isOwn && !isSameSpec && end?.at !== "complete")
    return restart(place, job, "the spec of the Model changed");
  return planResult(seen, job, isOwn, place);
}

function planResult(seen: CacheObservation, job: Job, isOwn: boolean, place: Place): CachePlan {
  const { metadata } = job;
  const end = jobEndOf(job);
  const held = end === undefined ? newest(seen.pods.filter(isHeldBySidecar)) : undefined;
  if (held !== undefined) return planHeldOpen(seen, job, held, place);
  // The watch of pods may be behind that of Jobs: the results are in its next events.
  if (end === undefined || seen.pods.some(isLive)) {
    const plan = planActive(seen, place);
    const isStuck = plan.state.trouble?.code === "DownloadImageUnavailable" && plan.running === undefined;
    return isStuck && metadata.annotations?.[ANNOTATION_IMAGE_KEY] !== imageKey(seen.settings)
      ? restart(place, job, "the controller has another image now", plan.state.trouble)
      : plan;
  }
  const fetched = end.at === "complete" ? newestResult(seen.pods, isFetched) : undefined;
  if (fetched !== undefined) return downloaded(seen, fetched, place);
  // The other Model's Job may have had less memory, or other nodes.
  if (!isOwn && place.attempts === undefined)
    return otherModels(seen, job, place, "it failed for another Model");
  return planFailed(seen, job, end.atMs, place);
}

function downloaded({ wish }: CacheObservation, fetched: Fetched, place: Place): CachePlan {
  const { file, mmproj } = fetched;
  const status = {
    ...withoutFailures(place),
    phase: "Ready" as const,
    reason: "Downloaded",
    message: wish.folder === "" ? "the weights are on the volume" : `downloaded to claim ${place.claimName}`,
    file,
    mmproj,
    bytes: fetched.sizeBytes,
    totalBytes: fetched.sizeBytes,
  };
  return { state: { status, fetched }, steps: [] };
}

/** The Job would end with its deadline, a day later. */
function planHeldOpen(seen: CacheObservation, job: Job, pod: Pod, place: Place): CachePlan {
  const fetched = newestResult([pod], isFetched);
  if (fetched === undefined)
    return planFailed(seen, job, Date.parse(fetchEnd(pod)?.finishedAt ?? "") || 0, place);
  const because = "it is complete, and a container beside the download keeps its pod running";
  return { ...downloaded(seen, fetched, place), steps: [{ do: "removeJob", job, because }] };
}

/** The Model whose Job it is reads the result first; then it is another one's turn. */
function otherModels({ nowMs }: CacheObservation, job: Job, place: Place, because: string): CachePlan {
  const { metadata } = job;
  const end = jobEndOf(job);
  const waitMs = end && Math.min(RECHECK_MS, end.atMs + RECHECK_MS - nowMs);
  if (waitMs !== undefined && waitMs <= 0) return restart(place, job, because);
  const message = `waiting for Job ${metadata.name}, which downloads files of the source for another Model`;
  return { state: waiting(place, "WaitingForDownload", message), steps: [], recheckAfterMs: waitMs };
}

function planActive(seen: CacheObservation, place: Place): CachePlan {
  const { pods, jobTrouble, progress } = seen;
  const pod = newest(pods.filter(isLive));
  const failure = lastFailure(pods);
  const running = pod?.status?.phase === "Running" ? pod : undefined;
  const known = knownBytes(seen.model, place);
  // An attempt that gets no further than the last one fails as that did.
  if (running !== undefined && (failure === undefined || (progress?.bytes ?? 0) > (known.bytes ?? 0))) {
    const status = {
      ...place,
      phase: "Downloading" as const,
      reason: "Downloading",
      message: describeProgress(progress ?? known),
      ...(progress ?? known),
    };
    return { state: { status: defined(status), trouble: failure }, steps: [], running };
  }
  const trouble = (pod === undefined ? jobTrouble : podStartProblem(pod)) ?? failure;
  const state =
    trouble === undefined
      ? waiting(place, "StartingDownload", "waiting for the pod of the download Job")
      : problemState(defined({ ...place, ...known }), trouble, "Pending");
  return { state, steps: [], running, recheckAfterMs: pod === undefined ? RECHECK_MS : undefined };
}

/** Progress of this download so far. */
function knownBytes({ status }: Model, { key }: Place): Partial<DownloadProgress> {
  const { cache } = status ?? {};
  return cache?.key === key ? defined({ bytes: cache?.bytes, totalBytes: cache?.totalBytes }) : {};
}

function isLive({ status }: Pod): boolean {
  return status?.phase !== "Failed" && status?.phase !== "Succeeded";
}

/** Also of a Job that is complete and left no result: a new one finds the files, and reports them. */
function planFailed(
  { claim, model, pods, nowMs, secretVersion }: CacheObservation,
  job: Job,
  failedAtMs: number,
  place: Place,
): CachePlan {
  const attempts = Number(job.metadata.annotations?.[ANNOTATION_ATTEMPT] ?? 1);
  const result = newestResult(pods, (one) => !isFetched(one));
  const trouble = describeFailure(result, job, newest(pods));
  const waitMs = retryDelay(attempts, failedAtMs, nowMs);
  const failed = { ...place, attempts, failedAt: isoSeconds(failedAtMs) };
  const tried = job.metadata.annotations?.[ANNOTATION_SECRET_VERSION];
  const isOtherSecret = tried !== undefined && secretVersion !== undefined && tried !== secretVersion;
  if (isOtherSecret) return restart(withoutFailures(place), job, "the Secret of the source changed", trouble);
  if (trouble.code === "DiskFull" && isResized(claim, job))
    return restart(withoutFailures(place), job, "the claim has another size now", trouble);
  if (waitMs <= 0) return restart(failed, job, "it failed, and its delay has elapsed", trouble);
  const at = isoSeconds(failedAtMs + delayAfter(attempts));
  const shown = { ...trouble, message: `${trouble.message}; retried after ${at}` };
  const phase = result !== undefined && !isFetched(result) && result.isRetryable ? "Pending" : "Failed";
  const waitsForSecret = needsOtherSecret(model, job, pods);
  return { state: problemState(failed, shown, phase), steps: [], recheckAfterMs: waitMs, waitsForSecret };
}

function withoutFailures({ attempts: _, failedAt: __, ...place }: Place): Place {
  return place;
}

function restart(place: Place, job: Job, because: string, trouble?: CacheProblem): CachePlan {
  const message = `replacing Job ${job.metadata.name}: ${because}`;
  return {
    state: { ...waiting(place, "StartingDownload", message), trouble },
    steps: [{ do: "removeJob", job, because }],
  };
}

function pending(place: Place, trouble: CacheProblem, recheckAfterMs?: number): CachePlan {
  return { state: problemState(place, trouble, "Pending"), steps: [], recheckAfterMs };
}

/** The state of a cache that cannot continue for now. */
export function problemState(place: Place, trouble: CacheProblem, phase: "Pending" | "Failed"): CacheState {
  return { status: { ...place, phase, reason: trouble.code, message: trouble.message }, trouble };
}

function waiting(place: Place, reason: string, message: string): CacheState {
  return { status: { ...place, phase: "Pending", reason, message } };
}

function describeProgress({ bytes, totalBytes = 0 }: Partial<DownloadProgress>): string {
  if (bytes === undefined) return "downloading";
  if (totalBytes === 0) return `downloading: ${formatBytes(bytes)}`;
  const percent = Math.floor((100 * bytes) / totalBytes);
  return `downloading: ${formatBytes(bytes)} of ${formatBytes(totalBytes)} (${percent} %)`;
}
