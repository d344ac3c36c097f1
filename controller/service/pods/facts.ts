/** What a pass knows of a service that runs as pods. Pure. */
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { Model } from "../../../src/api/model.ts";
import type { Blocked } from "../../../src/capacity/resolve.ts";
import type { Deployment, HorizontalPodAutoscaler } from "../../../src/kube/workload-objects.ts";
import type { PodsResolved } from "../../workload/resolve.ts";
import type { Rejection } from "../apply/rejection.ts";
import type { Obstacle } from "../apply/run.ts";
import type { ObservedNodes } from "./nodes.ts";
import type { Offload } from "./offload.ts";
import type { ObservedPods } from "./pods.ts";
import type { Deferral } from "./rollout.ts";

export interface PodsStatusInput {
  readonly service: InferenceService;
  readonly model: Model | undefined;
  readonly resolution: PodsResolved | Blocked;
  /** As the cache shows it: undefined until it exists. */
  readonly deployment: Deployment | undefined;
  readonly pods: ObservedPods;
  /** As the cache shows it. */
  readonly autoscaler?: HorizontalPodAutoscaler;
  readonly deferral: Deferral | undefined;
  /** Undefined: the engine is not asked, or has no GPU. */
  readonly offload: Offload | undefined;
  /** Undefined without placement.mode Auto. */
  readonly nodes?: ObservedNodes;
  readonly queuePosition: number | undefined;
  readonly obstacle: Obstacle;
  readonly rejections: readonly Rejection[];
}

/** Pods wanted now: of the autoscaler where there is one. */
export function wantedPods({ service, resolution, deployment }: PodsStatusInput): number {
  const { suspend, replicas } = service.spec;
  if (suspend) return 0;
  if (resolution.at === "resolved" && resolution.workload.autoscaler !== undefined)
    return deployment?.spec.replicas ?? resolution.workload.autoscaler.spec.minReplicas ?? 1;
  return replicas;
}

export function readyPodsText(input: PodsStatusInput): string {
  return `${input.pods.ready} of ${wantedPods(input)} replicas ready`;
}
