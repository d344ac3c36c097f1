/** What to apply for a service that runs as pods. Pure. */

import { FINALIZER_SERVICE } from "../../../src/api/group.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { Model } from "../../../src/api/model.ts";
import type { Blocked } from "../../../src/capacity/resolve.ts";
import { toPodsRevisionData } from "../../../src/capacity/revision-data.ts";
import type { PodsResolved } from "../../workload/resolve.ts";
import { podRevisionOf } from "../../workload/revision.ts";
import { startupBudgetOf } from "../../workload/surroundings.ts";
import type { Owned, OwnedKind } from "../owned/kinds.ts";
import { stepsOfKubeService } from "../owned/kube-service.ts";
import type { OwnedObjects } from "../owned/observe.ts";
import { stepsOfRevisions } from "../owned/revisions.ts";
import type { ServiceStep } from "../owned/steps.ts";
import { removals } from "../owned/teardown.ts";
import { isLoading } from "./pods.ts";

export interface PodsPlanInput {
  readonly service: InferenceService;
  readonly own: OwnedObjects;
  readonly model: Model | undefined;
  readonly resolution: PodsResolved | Blocked;
  /** The Prometheus operator is installed. */
  readonly hasPodMonitors: boolean;
}

/** What exists stays as it is while nothing can be made from the spec. */
export function planPods(input: PodsPlanInput): ServiceStep[] {
  const { service, own, resolution, hasPodMonitors } = input;
  const isHeld = service.metadata.finalizers?.includes(FINALIZER_SERVICE) === true;
  return [
    ...(isHeld ? [] : [{ do: "addFinalizer", service } as const]),
    ...stepsOfKubeService(service, own.kubeServices[0]),
    ...(resolution.at === "resolved"
      ? stepsOfWorkload(protectStartup(service, own, resolution.workload), own, hasPodMonitors)
      : []),
    ...revisionSteps(input),
  ];
}

/** With Auto, hosts keep the revisions of the service. */
export function keepsRevisions({ spec }: InferenceService): boolean {
  return spec.placement.on !== "Auto";
}

function revisionSteps({ service, own, model, resolution }: PodsPlanInput): ServiceStep[] {
  if (resolution.at !== "resolved" || model === undefined || !keepsRevisions(service)) return [];
  const { workload, runtime } = resolution;
  return stepsOfRevisions({
    service,
    revisions: own.revisions,
    hash: podRevisionOf(workload.deployment.spec.template) ?? "",
    data: () => toPodsRevisionData(service, runtime, model),
    running: own.pods.map(podRevisionOf),
  });
}

/** Without spec.disruption a start costs no further writes. */
function protectStartup(
  service: InferenceService,
  { pods }: OwnedObjects,
  workload: PodsResolved["workload"],
): PodsResolved["workload"] {
  if (service.spec.disruption?.protectStartup !== true || !pods.some(isLoading)) return workload;
  return { ...workload, disruptionBudget: startupBudgetOf(service) };
}

function stepsOfWorkload(
  workload: PodsResolved["workload"],
  own: OwnedObjects,
  hasPodMonitors: boolean,
): ServiceStep[] {
  const { deployment, autoscaler, disruptionBudget, networkPolicy, podMonitor } = workload;
  return [
    ...stepsOf("deployments", deployment, own.deployments),
    ...stepsOf("autoscalers", autoscaler, own.autoscalers),
    ...stepsOf("disruptionBudgets", disruptionBudget, own.disruptionBudgets),
    ...stepsOf("networkPolicies", networkPolicy, own.networkPolicies),
    ...stepsOf("podMonitors", hasPodMonitors ? podMonitor : undefined, own.podMonitors),
  ];
}

/** At most one of each kind is wanted: it is applied, and others go. */
function stepsOf<K extends OwnedKind>(
  what: K,
  wanted: Owned[K] | undefined,
  existing: readonly Owned[K][],
): ServiceStep[] {
  const current = existing.find(({ metadata }) => metadata.name === wanted?.metadata.name);
  const others = existing.filter((one) => one !== current);
  const gone = removals(what, others, "the spec asks for it no longer");
  if (wanted === undefined) return gone;
  return [{ do: "apply", what, object: wanted, current } as unknown as ServiceStep, ...gone];
}
