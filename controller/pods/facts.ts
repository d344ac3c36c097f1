/** The observed state of a service that runs as pods, as input for its status. Pure. */
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { Model } from "../../src/api/model.ts";
import type { Blocked } from "../../src/capacity/resolve.ts";
import type { Deployment } from "../../src/kube/workload-objects.ts";
import type { Rejection } from "../frame/apply/rejection.ts";
import type { Obstacle } from "../frame/apply/run.ts";
import { readyText } from "../frame/service/phase.ts";
import type { ObservedNodes } from "./nodes.ts";
import type { Offload } from "./offload.ts";
import type { ObservedPods } from "./pods.ts";
import type { ObservedQuota } from "./quota.ts";
import type { Deferral } from "./rollout.ts";
import type { Surroundings } from "./workload/contract.ts";
import type { PodsResolved } from "./workload/resolve.ts";

/** The part that Deployments and LeaderWorkerSets have in common. */
export interface ObservedWorkload {
  readonly metadata: Deployment["metadata"];
  readonly spec: Pick<Deployment["spec"], "replicas" | "strategy">;
  readonly status?: Pick<
    NonNullable<Deployment["status"]>,
    "observedGeneration" | "replicas" | "updatedReplicas" | "conditions"
  >;
}

export interface PodsStatusInput {
  readonly service: InferenceService;
  readonly model: Model | undefined;
  readonly resolution: PodsResolved<Surroundings> | Blocked;
  /** The Deployment or LeaderWorkerSet in the cache; undefined until it exists. */
  readonly deployment: ObservedWorkload | undefined;
  readonly pods: ObservedPods;
  readonly deferral: Deferral | undefined;
  /** Undefined if the engine has no GPU, or does not report its use. */
  readonly offload: Offload | undefined;
  /** Undefined without placement.mode Auto. */
  readonly nodes?: ObservedNodes;
  /** Undefined if Kueue does not manage the service. */
  readonly quota?: ObservedQuota;
  readonly queuePosition: number | undefined;
  readonly obstacle: Obstacle;
  readonly rejections: readonly Rejection[];
}

export function desiredPods({ service: { spec } }: Pick<PodsStatusInput, "service">): number {
  return spec.suspend ? 0 : spec.replicas;
}

export function readyPodsText(input: PodsStatusInput): string {
  return readyText(input.pods.ready, desiredPods(input));
}
