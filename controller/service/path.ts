/**
 * The interface of a way to run services: engines on hosts, or pods. The rest of a service is the same on
 * every path.
 */
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService, InferenceServiceStatus } from "../../src/api/inference-service/index.ts";
import type { RunsOn } from "../../src/api/inference-service/rollout.ts";
import type { Model } from "../../src/api/model.ts";
import { keyOf } from "../../src/api/names.ts";
import { runsOn } from "../../src/capacity/runs-on.ts";
import type { Recheck } from "../../src/kube/queue.ts";
import type { Rejection } from "./apply/rejection.ts";
import type { Obstacle } from "./apply/run.ts";
import type { OwnedObjects } from "./owned/observe.ts";
import type { ServiceStep } from "./owned/steps.ts";

/** A service that is not being deleted, with what it owns. `key` is `namespace/name`. */
export interface LiveService {
  readonly key: string;
  readonly service: InferenceService;
  readonly own: OwnedObjects;
}

export interface PathResult {
  readonly status: InferenceServiceStatus;
  readonly obstacle: Obstacle;
  readonly rejections: readonly Rejection[];
  /** Replicas that find no place. */
  readonly lacking: number;
  /** Replicas on hosts that are being drained, for which there is no other host. */
  readonly staying?: readonly InferenceReplica[];
  readonly recheckAfterMs?: number;
}

export interface ServicePath {
  readonly on: RunsOn;
  /** Other paths that it works through. */
  readonly parts?: readonly ServicePath[];
  /** Called once for every live service before the first pass, so that all demands are known together. */
  readonly prepare: (live: LiveService) => void;
  /**
   * One pass: observe, plan, apply; the status is written by the caller. Throws where only a retry can help.
   */
  readonly reconcile: (live: LiveService) => Promise<PathResult>;
  /** The service needs nothing more of this path: it is being deleted, is gone, or is on another path. */
  readonly release: (key: string, isGone: boolean) => void;
  /** Replicas that serve on this path. */
  readonly serving: (own: OwnedObjects) => number;
  /** Removes what this path has made for the service: asked once another path serves it. */
  readonly leave: (own: OwnedObjects) => readonly ServiceStep[];
}

/** Where nothing says which, for a Model that is missing, it is the one that serves now, else the first. */
export function choosePath(
  paths: readonly [ServicePath, ...ServicePath[]],
  { service, own }: LiveService,
  model: Model | undefined,
): ServicePath {
  const on = runsOn(service, model) ?? (own.deployments.length > 0 ? "Pods" : undefined);
  return paths.find((path) => path.on === on) ?? paths[0];
}

/** `namespace/name` of the Model that a service runs. */
export function modelKeyOf({ metadata, spec }: InferenceService): string {
  return keyOf({ namespace: metadata.namespace, name: spec.modelRef });
}

/** The soonest of these times. */
export function soonest(times: readonly (number | undefined)[]): Recheck | undefined {
  const known = times.filter((time) => time !== undefined);
  return known.length === 0 ? undefined : { recheckAfterMs: Math.min(...known) };
}
