/** The part of a Model's pass that downloads its weights to a volume: observe, plan, apply. */
import { LABEL_MODEL_CACHE, MANAGER_CONTROLLER } from "../../../src/api/group.ts";
import type { Model } from "../../../src/api/model.ts";
import { keyOf } from "../../../src/api/names.ts";
import { JOBS, NETWORK_POLICIES, PERSISTENT_VOLUME_CLAIMS } from "../../../src/kube/kinds.ts";
import type { ApiFailure, Kind, KubeClient, KubeObject } from "../../../src/kube/types.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";
import { ApiCallFailed } from "../../frame/apply/failure.ts";
import { rejectionOf } from "../../frame/apply/rejection.ts";
import type { RejectionRetries } from "../../frame/apply/retries.ts";
import { buildCacheClaim } from "../../pods/workload/cache-claim.ts";
import type { CacheSettings } from "../../pods/workload/contract.ts";
import {
  buildFetchJob,
  buildFetchPolicy,
  type CacheVolumeSpec,
  type Download,
  fetchJobName,
} from "../../pods/workload/model-cache.ts";
import { secretVersionOf } from "../source/credentials.ts";
import { isInspected } from "../source/inspections.ts";
import { type CacheProblem, cacheProblem, jobEndOf, needsOtherSecret } from "./job.ts";
import {
  type CacheObservation,
  type CachePlan,
  type CacheStep,
  dependsOnStorage,
  planCache,
  problemState,
} from "./plan.ts";
import { readClaimProblem, readJobProblem, readStorage } from "./problems.ts";
import type { Downloads } from "./watches.ts";

export interface CachePorts {
  readonly client: KubeClient;
  readonly downloads: Downloads;
  /** Retry delays for objects that the API server rejected. */
  readonly retries: RejectionRetries;
  readonly settings: CacheSettings;
  readonly clock: Clock;
  readonly log: Log;
}

/** Returns the state after the steps. Throws if only a retry of the whole pass can help. */
export async function reconcileCache(
  ports: CachePorts,
  model: Model,
  volume: CacheVolumeSpec,
  more: Pick<CacheObservation, "revision" | "isBeside">,
): Promise<Pick<CachePlan, "state" | "recheckAfterMs" | "waitsForSecret">> {
  const { retries, clock } = ports;
  const retryMs = (isRefused: boolean) => retries.note(keyOf(model.metadata), isRefused, clock.monotonicMs());
  const plan = planCache(await observe(ports, model, volume, more));
  if (plan.running !== undefined) ports.downloads.progress.follow(plan.running, keyOf(model.metadata));
  for (const step of plan.steps) {
    const problem = await apply(ports, model, volume, step);
    if (problem === undefined) continue;
    const { phase: _, reason: __, message: ___, ...place } = plan.state.status;
    return { state: problemState(place, problem, "Pending"), recheckAfterMs: retryMs(true) };
  }
  retryMs(false);
  return plan;
}

async function observe(
  { client, downloads, settings, clock }: CachePorts,
  model: Model,
  volume: CacheVolumeSpec,
  more: Pick<CacheObservation, "revision" | "isBeside">,
): Promise<CacheObservation> {
  const { namespace } = model.metadata;
  const keys = {
    job: keyOf({ namespace, name: fetchJobName(volume) }),
    claim: keyOf({ namespace, name: volume.claimName }),
  };
  // Followed before anything is read, so each later change starts another pass.
  downloads.follow(keyOf(model.metadata), { ...keys, isClaimOurs: volume.isOurs });
  const claim = downloads.claim(keys.claim, volume.isOurs);
  const isPending = claim.at === "present" && claim.claim.status?.phase === "Pending";
  const job = downloads.job(keys.job);
  const pods = job === undefined ? [] : downloads.podsOf(job);
  const isWithoutPod = job !== undefined && pods.length === 0 && jobEndOf(job) === undefined;
  const seen = {
    ...more,
    model,
    volume,
    settings,
    claim,
    job,
    pods,
    nowMs: clock.nowMs(),
    isSourceKnown: isInspected(model),
  };
  return {
    ...seen,
    storage:
      claim.at === "present" && dependsOnStorage(seen) ? await readStorage(client, claim.claim) : undefined,
    claimProblem: isPending ? await readClaimProblem(client, claim.claim) : undefined,
    jobProblem: isWithoutPod ? await readJobProblem(client, job) : undefined,
    secretVersion:
      job !== undefined && needsOtherSecret(model, job, pods)
        ? await secretVersionOf(client, model)
        : undefined,
    progress: pods.map(downloads.progress.of).find((progress) => progress !== undefined),
  };
}

async function apply(
  { client, settings, log }: CachePorts,
  model: Model,
  volume: CacheVolumeSpec,
  step: CacheStep,
): Promise<CacheProblem | undefined> {
  switch (step.do) {
    case "createClaim":
      return create(client, PERSISTENT_VOLUME_CLAIMS, buildCacheClaim(model, volume, settings));
    case "createJob":
      return createJob(
        { client, settings, log },
        { ...step.download, secretVersion: await secretVersionOf(client, model) },
      );
    case "removeJob": {
      const { name, uid } = step.job.metadata;
      const result = await client.remove(JOBS, step.job.metadata, { uid, propagation: "Background" });
      if (result.ok) log.info({ job: name, because: step.because }, "download Job removed");
      if (result.ok || result.error.kind === "notFound" || result.error.kind === "conflict") return undefined;
      return refusal(`delete Job ${name}`, result.error);
    }
    default:
      return step satisfies never;
  }
}

/** Creates the NetworkPolicy first, so no pod ever runs without it. */
async function createJob(
  { client, settings, log }: Pick<CachePorts, "client" | "settings" | "log">,
  download: Download,
): Promise<CacheProblem | undefined> {
  const policy = buildFetchPolicy(download, settings);
  const live = await client.get(NETWORK_POLICIES, policy.metadata);
  if (live.ok && !isOurs(live.value)) return nameTaken(NETWORK_POLICIES, live.value.metadata.name);
  const applied = await client.apply(NETWORK_POLICIES, policy, {
    manager: MANAGER_CONTROLLER,
    current: live.ok ? live.value : undefined,
  });
  if (!applied.ok) return refusal(`apply NetworkPolicy ${policy.metadata.name}`, applied.error);
  const job = buildFetchJob(download, settings);
  const problem = await create(client, JOBS, job);
  if (problem === undefined)
    log.info({ model: keyOf(download.model.metadata), job: job.metadata.name }, "download Job created");
  return problem;
}

/** An existing object with the same name but without our label is not touched. */
async function create<T extends KubeObject>(
  client: KubeClient,
  kind: Kind<T>,
  object: T,
): Promise<CacheProblem | undefined> {
  const { name } = object.metadata;
  const result = await client.create(kind, object);
  if (result.ok) return undefined;
  if (result.error.kind !== "alreadyExists") return refusal(`create ${kind.kind} ${name}`, result.error);
  const live = await client.get(kind, object.metadata);
  // If the object is ours, the watch will deliver it.
  return live.ok && !isOurs(live.value) ? nameTaken(kind, name) : undefined;
}

function isOurs({ metadata }: KubeObject): boolean {
  return metadata.labels?.[LABEL_MODEL_CACHE] !== undefined;
}

function nameTaken<T extends KubeObject>({ kind }: Kind<T>, name: string): CacheProblem {
  return cacheProblem("ObjectNameTaken", `a ${kind} named ${name} exists that Metalbridge did not create`);
}

function refusal(action: string, failure: ApiFailure): CacheProblem {
  const rejection = rejectionOf(action, failure);
  if (rejection === undefined) throw new ApiCallFailed(action, failure);
  return cacheProblem(rejection.code, `${action}: ${rejection.message}`);
}
