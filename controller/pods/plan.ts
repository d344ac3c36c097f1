/** Plans the steps for a service that runs as pods. Pure. */

import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { Model } from "../../src/api/model.ts";
import type { Blocked } from "../../src/capacity/resolve.ts";
import { toPodsRevisionData } from "../../src/capacity/revision-data.ts";
import { stepsOfKubeService } from "../frame/owned/kube-service.ts";
import type { OwnedObjects } from "../frame/owned/observe.ts";
import { type RequestedBackend, stepsOfRevisions } from "../frame/owned/revisions.ts";
import { type ServiceStep, stepsOfFinalizer } from "../frame/owned/steps.ts";
import { stepsOf } from "../frame/owned/steps-of.ts";
import { podTemplatesOf, stepsOfClaimTemplates } from "./claims.ts";
import { isLoading } from "./pods.ts";
import type { GroupWorkload, Workload } from "./workload/contract.ts";
import type { PodsResolved } from "./workload/resolve.ts";
import { podRevisionOf } from "./workload/revision.ts";
import { startupBudgetOf } from "./workload/surroundings.ts";

export interface PodsPlanInput {
  readonly service: InferenceService;
  readonly own: OwnedObjects;
  readonly model: Model | undefined;
  /** The content of the BackendRuntime in use. */
  readonly backend: RequestedBackend | undefined;
  readonly resolution: PodsResolved<Workload | GroupWorkload> | Blocked;
  /** True if the Prometheus operator is installed. */
  readonly hasPodMonitors: boolean;
}

/** Existing objects stay unchanged while the service cannot be resolved. */
export function planPods(input: PodsPlanInput): ServiceStep[] {
  const { service, own, model, resolution, hasPodMonitors } = input;
  return [
    ...stepsOfFinalizer(service),
    ...stepsOfKubeService(service, model, own.kubeServices[0]),
    ...(resolution.at === "resolved"
      ? stepsOfWorkload(protectStartup(service, own, resolution.workload), own, hasPodMonitors)
      : []),
    ...revisionSteps(input),
  ];
}

function revisionSteps({ service, own, model, backend, resolution }: PodsPlanInput): ServiceStep[] {
  if (resolution.at !== "resolved" || model === undefined) return [];
  const { revision, digest } = resolution;
  return stepsOfRevisions({
    service,
    side: "Pods",
    revisions: own.revisions,
    hash: revision,
    backend,
    renderedFor: digest,
    data: () => toPodsRevisionData({ service, model, backend }, resolution),
    running: own.pods.map(podRevisionOf),
  });
}

/** Only with spec.disruption.protectStartup, so that other starts need no additional writes. */
function protectStartup<W extends Workload | GroupWorkload>(
  service: InferenceService,
  { pods }: OwnedObjects,
  workload: W,
): W {
  if (service.spec.disruption?.protectStartup !== true || !pods.some(isLoading)) return workload;
  return { ...workload, disruptionBudget: startupBudgetOf(service) };
}

function stepsOfWorkload(
  workload: Workload | GroupWorkload,
  own: OwnedObjects,
  hasPodMonitors: boolean,
): ServiceStep[] {
  const { disruptionBudget, networkPolicy, podMonitor } = workload;
  return [
    ...stepsOfPods(workload, own),
    ...stepsOf("disruptionBudgets", disruptionBudget, own.disruptionBudgets),
    ...stepsOf("networkPolicies", networkPolicy, own.networkPolicies),
    ...stepsOf("podMonitors", hasPodMonitors ? podMonitor : undefined, own.podMonitors),
  ];
}

/** The other kind stays until the service is ready. */
function stepsOfPods(workload: Workload | GroupWorkload, own: OwnedObjects): ServiceStep[] {
  const isGroup = "group" in workload;
  const templates = isGroup
    ? podTemplatesOf(workload.group.spec.leaderWorkerTemplate)
    : [workload.deployment.spec.template];
  const claims = stepsOfClaimTemplates(workload, templates, own);
  const steps = isGroup
    ? stepsOf("groups", workload.group, own.groups)
    : stepsOf("deployments", workload.deployment, own.deployments);
  return [...claims.before, ...steps, ...claims.after];
}
