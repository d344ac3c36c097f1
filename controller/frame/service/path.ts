/** A path is one way to run services: on hosts, in pods, or both. */
import type { Flavor } from "../../../src/api/flavors.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService, InferenceServiceStatus } from "../../../src/api/inference-service/index.ts";
import { mainModelOf } from "../../../src/api/inference-service/roles.ts";
import type { RunsOn } from "../../../src/api/inference-service/rollout.ts";
import type { Model } from "../../../src/api/model.ts";
import { keyOf } from "../../../src/api/names.ts";
import { findNamedModels, type NamedModels } from "../../../src/capacity/named-models.ts";
import type { Blocked } from "../../../src/capacity/resolve.ts";
import { runsOn } from "../../../src/capacity/runs-on.ts";
import type { Recheck } from "../../../src/kube/queue.ts";
import type { Reflector } from "../../../src/kube/types.ts";
import type { Rejection } from "../apply/rejection.ts";
import type { Obstacle } from "../apply/run.ts";
import type { OwnedObjects } from "../owned/observe.ts";
import type { PathStep, ServiceStep } from "../owned/steps.ts";
import type { ChosenBackend } from "./backend.ts";

/** A service that is not being deleted, with the objects that it owns. `key` is `namespace/name`. */
export interface LiveService {
  readonly key: string;
  readonly service: InferenceService;
  readonly own: OwnedObjects;
  /** Set if the Model has flavors. Then spec.placement of the service is that of the flavor. */
  readonly flavor?: TakenFlavor;
  /** The content of the BackendRuntime that the service uses. */
  readonly backend: ChosenBackend | undefined;
  /** Why nothing new can start, whatever the path. */
  readonly blocked?: Blocked | undefined;
}

/**
 * Flavors in one pod template, in order of preference. The scheduler chooses by node affinity (`labels`) or by a prioritized
 * ResourceClaim (`devices`); with one flavor (`single`) the controller has chosen.
 */
export interface FlavorStage {
  readonly by: "labels" | "devices" | "single";
  readonly flavors: readonly [Flavor, ...Flavor[]];
}

/** The flavor that the service runs on. */
export type TakenFlavor =
  | { readonly on: "Hosts"; readonly flavor: Flavor }
  | { readonly on: "Pods"; readonly stage: FlavorStage };

export interface PathResult {
  readonly status: InferenceServiceStatus;
  readonly obstacle: Obstacle;
  readonly rejections: readonly Rejection[];
  /** Number of replicas for which no host or node was found. */
  readonly lacking: number;
  /** Replicas on draining hosts that fit on no other host. */
  readonly staying?: readonly InferenceReplica[];
  readonly recheckAfterMs?: number;
  /** Last flavor in the order of the Model whose devices kube-scheduler allocated to a pod, if it chooses among several. */
  readonly allocatedFlavor?: string | undefined;
}

export interface ServicePath {
  readonly on: RunsOn;
  /** What the path runs, for messages. */
  readonly names: "replicas on hosts" | "pods" | "groups of pods";
  /** False for services that another path of the same platform runs. Absent: all services. */
  readonly takes?: (service: InferenceService) => boolean;
  /** Paths that this path consists of. */
  readonly parts?: readonly ServicePath[];
  /** Called once for every live service before the first pass, so that all demands are known together. */
  readonly prepare: (live: LiveService) => void;
  /** One pass: observe, plan, apply. The caller writes the status. Throws if only a retry can help. */
  readonly reconcile: (live: LiveService) => Promise<PathResult>;
  /** Steps before each pass on another path, for what still serves on this one. */
  readonly keep?: (own: OwnedObjects) => readonly PathStep[];
  /** Releases a service that is on another path, is being deleted, or no longer exists (`isDeleted`). */
  readonly release: (key: string, isDeleted: boolean) => void;
  /** Number of replicas that serve on this path. */
  readonly serving: (own: OwnedObjects) => number;
  /** Removes the objects of this path, once another path serves the service. */
  readonly leave: (own: OwnedObjects, to: ServicePath) => readonly ServiceStep[];
}

/** If the Model is missing and the spec does not decide, the path that serves now is chosen, or else the first. */
export function choosePath(
  paths: readonly [ServicePath, ...ServicePath[]],
  { service, own }: LiveService,
  model: Model | undefined,
): ServicePath {
  const on = runsOn(service, model) ?? (own.deployments.length + own.groups.length > 0 ? "Pods" : undefined);
  return paths.find((path) => path.on === on && path.takes?.(service) !== false) ?? paths[0];
}

/** The Models that a service names, from the cache. */
export function namedModels(
  models: Pick<Reflector<Model>, "get">,
  { metadata: { namespace }, spec }: InferenceService,
): NamedModels {
  return findNamedModels(spec, (name) => models.get(keyOf({ namespace, name })));
}

/** `namespace/name` of the Model that a service runs. */
export function modelKeyOf({ metadata, spec }: InferenceService): string {
  return keyOf({ namespace: metadata.namespace, name: mainModelOf(spec) });
}

/** The earliest of these times. */
export function soonest(times: readonly (number | undefined)[]): Recheck | undefined {
  const known = times.filter((time) => time !== undefined);
  return known.length === 0 ? undefined : { recheckAfterMs: Math.min(...known) };
}
