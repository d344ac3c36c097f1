/** The input and output of the workload builders. They read nothing else: neither the cluster nor the clock. */

import type { Runtime } from "../../../src/api/fields/runtimes.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { Model } from "../../../src/api/model.ts";
import type {
  Deployment,
  LeaderWorkerSet,
  NetworkPolicy,
  PodDisruptionBudget,
  PodMonitor,
  ResourceClaimTemplate,
} from "../../../src/kube/workload-objects.ts";

export type Term = { readonly matchExpressions?: readonly object[]; readonly [key: string]: unknown };

/** What flavors add to a pod beyond the settings of service and Model. */
export interface PodFlavors {
  /** Labels that every flavor in the template requires. */
  readonly nodeSelector?: Readonly<Record<string, string>> | undefined;
  /** Required node selector terms, which are ORed, in order of preference. */
  readonly terms?: readonly Term[];
  /** Preferred terms with falling weights, if the flavors differ in one label. */
  readonly preferred?: readonly { readonly weight: number; readonly preference: Term }[];
  /** Limits of the container other than GPUs. */
  readonly limits: Readonly<Record<string, string>>;
  readonly parallel: { readonly tensor?: number | undefined; readonly pipeline?: number | undefined };
}

/** Files on a volume. `folder` is relative to the root of the volume ("" is the root); the other paths are relative to `folder`. */
export interface MountedWeights {
  /** Absent: the pod's own volume, unless there is a `hostPath`. */
  readonly claimName?: string;
  /** The volume is this folder of the node. */
  readonly hostPath?: string;
  readonly folder: string;
  /** File or folder that the engine opens. */
  readonly file: string;
  /** True if `file` is a folder with the weights in several files. */
  readonly isFolder?: boolean;
  /** Absent: next to the main file, by its name in the Model. */
  readonly projector?: string;
  /** True if a Job has filled a claim that only one node at a time can mount. */
  readonly isOnOneNode?: boolean;
  /** An init container fetches the files of this Model to the volume and creates the link to them. */
  readonly fetched?: { readonly model: Model; readonly link: string };
}

/** User and group of engines, which must not be root. Downloads to the model cache use the same ID. */
export const POD_USER = 65_532;

export type Volume = { readonly name: string; readonly [source: string]: unknown };

/** Settings for downloads of weights and the volumes that hold them. */
export interface CacheSettings {
  /** Metalbridge's own image. Without it no Job can be created. */
  readonly image?: string;
  /** Names of Secrets in the Model's namespace. */
  readonly imagePullSecrets: readonly string[];
  /** One claim for a namespace, or one for each Model. The default depends on the access mode. */
  readonly cacheScope?: "Namespace" | "Model";
  /** Size of a claim for a namespace, or for a Model of unknown size. */
  readonly cacheSize: string;
  /** Undefined: the cluster's default class. */
  readonly cacheStorageClass?: string;
  readonly cacheAccessMode: "ReadWriteOnce" | "ReadWriteMany" | "ReadWriteOncePod";
  /** ConfigMap in the Model's namespace with key `ca.crt`. */
  readonly cacheCaConfigMap?: string;
  /** Folders of nodes that pods may mount. */
  readonly hostPaths?: readonly string[];
  readonly hfEndpoint: string;
  readonly ollamaRegistry?: string;
  readonly allowLoopback: boolean;
  readonly allowPrivate: boolean;
  readonly allowNetworks: readonly string[];
  /** The proxies of the controller, for its Jobs. */
  readonly proxyVariables?: readonly { readonly name: string; readonly value: string }[];
}

/** Settings for pods from the controller's configuration. */
export interface PodsSettings {
  /** Images that replace the pinned ones, by runtime ("vllm") or by runtime and accelerator ("sglang/rocm"). */
  readonly images: Readonly<Record<string, string>>;
  /** Prefix of the pinned images, for a mirror: `mirror.example/proxy` gives `mirror.example/proxy/ghcr.io/…`. */
  readonly registryPrefix?: string;
  /** Settings of the init containers that fetch weights. */
  readonly fetch?: CacheSettings;
}

export interface WorkloadInput {
  readonly service: InferenceService;
  readonly model: Model;
  readonly runtime: Runtime;
  /** Absent: the engine fetches the weights. */
  readonly weights?: MountedWeights;
  readonly draftWeights?: MountedWeights;
  readonly projectorWeights?: MountedWeights;
  /** In the order of `modelNamesOf(spec).adapters`; undefined if the engine fetches the adapter. */
  readonly adapterWeights?: readonly (MountedWeights | undefined)[];
  /** The memory request includes the sizes of drafts, projectors and adapters. */
  readonly draft?: Model;
  readonly projector?: Model;
  readonly adapters?: readonly Model[];
  /** True if no other service names the Model. */
  readonly isOnlyService?: boolean;
  readonly replicas: number;
  readonly settings: PodsSettings;
  /** Absent if the Model has no flavors. */
  readonly flavors?: PodFlavors | undefined;
  readonly claimTemplate?: ResourceClaimTemplate | undefined;
}

/** The objects around the pods of a service. */
export interface Surroundings {
  /** Template of the claims of pods whose flavors have devices of a DeviceClass. */
  readonly claimTemplate?: ResourceClaimTemplate | undefined;
  readonly disruptionBudget?: PodDisruptionBudget;
  readonly networkPolicy?: NetworkPolicy;
  readonly podMonitor?: PodMonitor;
}

export interface Workload extends Surroundings {
  readonly deployment: Deployment;
}

/** The objects of a service with spec.group. */
export interface GroupWorkload extends Surroundings {
  readonly group: LeaderWorkerSet;
}
