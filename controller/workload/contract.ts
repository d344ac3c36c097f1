/** What a workload is made from, and what it is. Builders read nothing else: neither cluster nor clock. */

import type { Runtime } from "../../src/api/fields/runtimes.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { Model } from "../../src/api/model.ts";
import type {
  Deployment,
  HorizontalPodAutoscaler,
  NetworkPolicy,
  PodDisruptionBudget,
  PodMonitor,
} from "../../src/kube/workload-objects.ts";

/** Files on a volume: `folder` relative to its root ("" for the root itself), the others relative to the folder. */
export interface MountedWeights {
  /** Absent: a volume of the pod itself. */
  readonly claimName?: string;
  readonly folder: string;
  /** What the engine opens. */
  readonly file: string;
  /** `file` is a folder, with the weights in several files. */
  readonly isFolder?: boolean;
  /** Absent: beside the main file, by its name in the Model. */
  readonly projector?: string;
  /** An init container brings the files of this Model to the volume, and names them by the link. */
  readonly fetched?: { readonly model: Model; readonly link: string };
}

/** User and group of engines: any that is not root; the model cache is written as the same. */
export const POD_USER = 65_532;

export type Volume = { readonly name: string; readonly [source: string]: unknown };

/** How weights are downloaded, and to which volumes. */
export interface CacheSettings {
  /** Image of Metalbridge itself; undefined: no Job can be made. */
  readonly image?: string | undefined;
  /** Names of Secrets in the Model's namespace. */
  readonly imagePullSecrets: readonly string[];
  /** One claim for a namespace, or one for each Model. Undefined: by the access mode. */
  readonly cacheScope?: "Namespace" | "Model" | undefined;
  /** Of a claim for a namespace, and for a Model of unknown size. */
  readonly cacheSize: string;
  /** Undefined: the cluster's default class. */
  readonly cacheStorageClass?: string | undefined;
  readonly cacheAccessMode: "ReadWriteOnce" | "ReadWriteMany" | "ReadWriteOncePod";
  /** ConfigMap in the Model's namespace with `ca.crt`. */
  readonly cacheCaConfigMap?: string | undefined;
  readonly hfEndpoint: string;
  readonly ollamaRegistry?: string | undefined;
  readonly allowLoopback: boolean;
  readonly allowPrivate: boolean;
  readonly allowNetworks: readonly string[];
}

/** From the controller's configuration. */
export interface PodsSettings {
  /** By runtime ("vllm") or by runtime and accelerator ("sglang/rocm"), instead of the pinned ones. */
  readonly images: Readonly<Record<string, string>>;
  /** Put before the pinned images, for a mirror: `mirror.example/proxy` makes `mirror.example/proxy/ghcr.io/…`. */
  readonly registryPrefix?: string | undefined;
  /** For pods that fetch their weights: how download Jobs do it. */
  readonly fetch?: CacheSettings | undefined;
}

/** Nodes for the pods of a service by how well its model fits them; each by its label kubernetes.io/hostname. */
export interface NodeChoice {
  /** Known not to hold it. */
  readonly avoid: readonly string[];
  /** Weights from 1 to 100, the largest first. */
  readonly prefer: readonly { readonly weight: number; readonly nodes: readonly string[] }[];
}

export interface WorkloadInput {
  readonly service: InferenceService;
  readonly model: Model;
  readonly runtime: Runtime;
  /** Absent: the engine fetches the weights itself. */
  readonly weights?: MountedWeights | undefined;
  readonly draftWeights?: MountedWeights | undefined;
  /** In the order of spec.loraAdapters. */
  readonly adapterWeights?: readonly MountedWeights[] | undefined;
  /** Their sizes count for the memory that is asked for. */
  readonly draft?: Model | undefined;
  readonly adapters?: readonly Model[] | undefined;
  /** No other service names the Model. */
  readonly isOnlyService?: boolean | undefined;
  /** Undefined: an autoscaler owns it. */
  readonly replicas: number | undefined;
  readonly settings: PodsSettings;
  /** Absent: as the service says, and no more. */
  readonly nodes?: NodeChoice | undefined;
}

export interface Workload {
  readonly deployment: Deployment;
  readonly autoscaler?: HorizontalPodAutoscaler;
  readonly disruptionBudget?: PodDisruptionBudget;
  readonly networkPolicy?: NetworkPolicy;
  readonly podMonitor?: PodMonitor;
}
