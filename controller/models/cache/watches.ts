/** Watches the objects of downloads: our Jobs with their pods and claims, and other claims by name. */
import { LABEL_MODEL_CACHE } from "../../../src/api/group.ts";
import { keyOf } from "../../../src/api/names.ts";
import { createGrouping } from "../../../src/cluster/grouping.ts";
import { JOBS, PERSISTENT_VOLUME_CLAIMS, PODS } from "../../../src/kube/kinds.ts";
import type { KubeObject, Reflector } from "../../../src/kube/types.ts";
import type { WatchedReflector } from "../../../src/kube/watch/catch-up.ts";
import { type ReflectorOptions, UNWATCHED } from "../../../src/kube/watch/reflector.ts";
import type { Job, PersistentVolumeClaim, Pod } from "../../../src/kube/workload-objects.ts";
import type { WatchedPaths, WatchOptions } from "../../frame/watches/contract.ts";
import { createDownloadFollower, type DownloadFollower } from "./progress.ts";

export type ObservedClaim =
  /** The watch has not listed yet. */
  | { readonly at: "unknown" }
  | { readonly at: "absent" }
  | { readonly at: "present"; readonly claim: PersistentVolumeClaim };

export interface Downloads {
  readonly job: (key: string) => Job | undefined;
  readonly podsOf: (job: Job) => readonly Pod[];
  readonly claim: (key: string, isOurs: boolean) => ObservedClaim;
  readonly progress: DownloadFollower;
  /** Enqueues the Model whenever one of these objects changes. Replaces the Model's earlier interest. */
  readonly follow: (model: string, interest: Interest | undefined) => void;
  readonly watches: readonly (WatchedReflector & Pick<Reflector<never>, "whenSynced">)[];
}

/** Keys (`namespace/name`) of the objects of a Model's download. */
export interface Interest {
  readonly job: string;
  readonly claim: string;
  readonly isClaimOurs: boolean;
}

export interface DownloadOptions extends WatchOptions, WatchedPaths {
  readonly onModel: (key: string) => void;
}

const LABEL_JOB = "batch.kubernetes.io/job-name";
const LABEL_JOB_UID = "batch.kubernetes.io/controller-uid";

/** Starts the watches, which stop with `signal`. */
export function startDownloads({ onModel, ...options }: DownloadOptions): Downloads {
  const interests = new Map<string, Interest>();
  const byJob = new Map<string, Set<string>>();
  const byClaim = new Map<string, Set<string>>();
  const foreign = createForeignClaims(options, (claim) => notify(byClaim, claim));
  const podsOfJob = createGrouping<Pod>(({ metadata }) => {
    const name = metadata.labels?.[LABEL_JOB];
    return name === undefined ? [] : [keyOf({ namespace: metadata.namespace, name })];
  });
  const progress = createDownloadFollower({ ...options, onProgress: onModel });
  const notify = (index: ReadonlyMap<string, ReadonlySet<string>>, key: string): void => {
    for (const model of index.get(key) ?? []) onModel(model);
  };
  const start = <T extends KubeObject>(rest: Pick<ReflectorOptions<T>, "kind" | "onChange">) =>
    options.hostsOnly
      ? UNWATCHED
      : options.startReflector<T>({ ...options, ...rest, labelSelector: LABEL_MODEL_CACHE });
  const jobs = start<Job>({ kind: JOBS, onChange: (key) => notify(byJob, key) });
  const claims = start<PersistentVolumeClaim>({
    kind: PERSISTENT_VOLUME_CLAIMS,
    onChange: (key) => notify(byClaim, key),
  });
  const pods = start<Pod>({
    kind: PODS,
    onChange: (key, pod, before) => {
      for (const job of podsOfJob.note(key, pod, before)) notify(byJob, job);
      if (pod?.status?.phase !== "Running") progress.forget(pod ?? before);
    },
  });
  return {
    job: jobs.get,
    podsOf: ({ metadata }) =>
      podsOfJob.of(keyOf(metadata)).filter((pod) => pod.metadata.labels?.[LABEL_JOB_UID] === metadata.uid),
    claim: (key, isOurs) => (isOurs ? observed(claims.get(key)) : foreign.get(key)),
    progress,
    follow: (model, interest) => {
      const before = interests.get(model);
      if (before?.job === interest?.job && before?.claim === interest?.claim) return;
      if (before !== undefined) {
        drop(byJob, before.job, model);
        drop(byClaim, before.claim, model);
        if (!byClaim.has(before.claim)) foreign.forget(before.claim);
        interests.delete(model);
      }
      if (interest === undefined) return;
      interests.set(model, interest);
      add(byJob, interest.job, model);
      add(byClaim, interest.claim, model);
      if (!interest.isClaimOurs) foreign.watch(interest.claim);
    },
    watches: [jobs, claims, pods],
  };
}

/** Claims that the controller did not create lack our label, so each is watched by name while a Model uses it. */
function createForeignClaims(options: WatchOptions, onChange: (key: string) => void) {
  const watched = new Map<
    string,
    { readonly stop: AbortController; readonly claims: Reflector<PersistentVolumeClaim> }
  >();
  return {
    get: (key: string): ObservedClaim => {
      const { claims } = watched.get(key) ?? {};
      return claims === undefined || !claims.isSynced() ? { at: "unknown" } : observed(claims.get(key));
    },
    watch: (key: string): void => {
      if (watched.has(key)) return;
      const stop = new AbortController();
      const [namespace = "", name = ""] = key.split("/");
      const claims = options.startReflector<PersistentVolumeClaim>({
        ...options,
        signal: AbortSignal.any([options.signal, stop.signal]),
        kind: PERSISTENT_VOLUME_CLAIMS,
        namespace,
        fieldSelector: `metadata.name=${name}`,
        onChange: () => onChange(key),
        onSynced: () => onChange(key),
      });
      watched.set(key, { stop, claims });
    },
    forget: (key: string): void => {
      watched.get(key)?.stop.abort();
      watched.delete(key);
    },
  };
}

function observed(claim: PersistentVolumeClaim | undefined): ObservedClaim {
  return claim === undefined ? { at: "absent" } : { at: "present", claim };
}

function add(index: Map<string, Set<string>>, key: string, model: string): void {
  index.set(key, (index.get(key) ?? new Set<string>()).add(model));
}

function drop(index: Map<string, Set<string>>, key: string, model: string): void {
  const models = index.get(key);
  models?.delete(model);
  if (models?.size === 0) index.delete(key);
}
