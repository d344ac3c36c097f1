/** The part of a Model's pass that brings its weights to a volume: observe, plan, apply. */
import { LABEL_MODEL_CACHE, MANAGER_CONTROLLER } from "../../../src/api/group.ts";
import type { Model } from "../../../src/api/model.ts";
import { keyOf } from "../../../src/api/names.ts";
import { JOBS, NETWORK_POLICIES, PERSISTENT_VOLUME_CLAIMS } from "../../../src/kube/kinds.ts";
import type { ApiFailure, Kind, KubeClient, KubeObject } from "../../../src/kube/types.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";
import { ApiCallFailed } from "../../service/apply/failure.ts";
import { rejectionOf } from "../../service/apply/rejection.ts";
import type { RejectionRetries } from "../../service/apply/retries.ts";
import { buildCacheClaim } from "../../workload/cache-claim.ts";
import type { CacheSettings } from "../../workload/contract.ts";
import {
  buildFetchJob,
  buildFetchPolicy,
  type CacheVolumeSpec,
  type Download,
  fetchJobName,
} from "../../workload/model-cache.ts";
import { secretVersionOf } from "../source/credentials.ts";
import { isInspected } from "../source/inspections.ts";
import { type CacheProblem, cacheProblem, jobEndOf, needsOtherSecret } from "./job.ts";
import { type CacheObservation, type CachePlan, type CacheStep, planCache, problemState } from "./plan.ts";
import { readClaimProblem, readJobProblem } from "./problems.ts";
import type { Downloads } from "./watches.ts";

export interface CachePorts {
  readonly client: KubeClient;
  readonly downloads: Downloads;
  /** Of objects that the API server rejected. */
  readonly retries: RejectionRetries;
  readonly settings: CacheSettings;
  readonly clock: Clock;
  readonly log: Log;
}

/** The state after the steps. Throws where only a retry of the whole pass can help. */
export async function reconcileCache(
  ports: CachePorts,
  model: Model,
  wish: CacheVolumeSpec,
  revision: string | undefined,
): Promise<Pick<CachePlan, "state" | "recheckAfterMs" | "waitsForSecret">> {
  const { retries, clock } = ports;
  const retryMs = (isRefused: boolean) =>
    retries.afterMs(keyOf(model.metadata), isRefused, clock.monotonicMs());
  const plan = planCache(await observe(ports, model, wish, revision));
  if (plan.running !== undefined) ports.downloads.progress.follow(plan.running, keyOf(model.metadata));
  for (const step of plan.steps) {
    const trouble = await apply(ports, model, wish, step);
    if (trouble === undefined) continue;
    const { phase: _, reason: __, message: ___, ...place } = plan.state.status;
    return { state: problemState(place, trouble, "Pending"), recheckAfterMs: retryMs(true) };
  }
  retryMs(false);
  return plan;
}

async function observe(
  { client, downloads, settings, clock }: CachePorts,
  model: Model,
  wish: CacheVolumeSpec,
  revision: string | undefined,
): Promise<CacheObservation> {
  const { namespace } = model.metadata;
  const keys = {
    job: keyOf({ namespace, name: fetchJobName(wish) }),
    claim: keyOf({ namespace, name: wish.claimName }),
  };
  // Before anything is read: what changes from here on brings another pass.
  downloads.follow(keyOf(model.metadata), { ...keys, isClaimOurs: wish.isOurs });
  const claim = downloads.claim(keys.claim, wish.isOurs);
  const isPending = claim.at === "present" && claim.claim.status?.phase === "Pending";
  const job = downloads.job(keys.job);
  const pods = job === undefined ? [] : downloads.podsOf(job);
  const isWithoutPod = job !== undefined && pods.length === 0 && jobEndOf(job) === undefined;
  return {
    model,
    wish,
    settings,
    revision,
    claim,
    job,
    pods,
    nowMs: clock.nowMs(),
    isSourceKnown: isInspected(model),
    claimTrouble: isPending ? await readClaimProblem(client, claim.claim) : undefined,
    jobTrouble: isWithoutPod ? await readJobProblem(client, job) : undefined,
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
  wish: CacheVolumeSpec,
  step: CacheStep,
): Promise<CacheProblem | undefined> {
  switch (step.do) {
    case "createClaim":
      return create(client, PERSISTENT_VOLUME_CLAIMS, buildCacheClaim(model, wish, settings));
    case "createJob":
      return createJob(
        { client, settings, log },
        { ...step.download, secretVersion: await secretVersionOf(client, model) },
      );
    case "removeJob": {
      const { name, uid } = step.job.metadata;
      const result = await client.remove(JOBS, step.job.metadata, {
        uid,
        propagation: "Background",
      });
      if (result.ok) log.info({ job: name, because: step.because }, "download Job removed");
      if (result.ok || result.error.kind === "notFound" || result.error.kind === "conflict") return undefined;
      return refusal(`delete Job ${name}`, result.error);
    }
    default:
      return step satisfies never;
  }
}

/** The NetworkPolicy first: no pod is ever without it. */
async function createJob(
  { client, settings, log }: Pick<CachePorts, "client" | "settings" | "log">,
  download: Download,
): Promise<CacheProblem | undefined> {
  const policy = buildFetchPolicy(download, settings);
  const live = await client.get(NETWORK_POLICIES, policy.metadata);
  if (live.ok && !isOurs(live.value)) return taken(NETWORK_POLICIES, live.value.metadata.name);
  const applied = await client.apply(NETWORK_POLICIES, policy, {
    manager: MANAGER_CONTROLLER,
    current: live.ok ? live.value : undefined,
  });
  if (!applied.ok) return refusal(`apply NetworkPolicy ${policy.metadata.name}`, applied.error);
  const job = buildFetchJob(download, settings);
  const trouble = await create(client, JOBS, job);
  if (trouble === undefined)
    log.info({ model: keyOf(download.model.metadata), job: job.metadata.name }, "download Job created");
  return trouble;
}

/** Nothing of others is taken over: what has the name and not our label is left as it is. */
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
  // Ours: the watch has it soon.
  return live.ok && !isOurs(live.value) ? taken(kind, name) : undefined;
}

function isOurs({ metadata }: KubeObject): boolean {
  return metadata.labels?.[LABEL_MODEL_CACHE] !== undefined;
}

function taken<T extends KubeObject>({ kind }: Kind<T>, name: string): CacheProblem {
  return cacheProblem("ObjectNameTaken", `a ${kind} named ${name} exists that Metalbridge did not create`);
}

function refusal(what: string, failure: ApiFailure): CacheProblem {
  const rejection = rejectionOf(what, failure);
  if (rejection === undefined) throw new ApiCallFailed(what, failure);
  return cacheProblem(rejection.code, `${what}: ${rejection.message}`);
}
