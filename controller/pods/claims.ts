/** The ResourceClaimTemplates of a service, from which each pod gets its own claim for devices of its flavors. Pure. */
import type { KubeObject } from "../../src/kube/types.ts";
import type {
  LeaderWorkerSet,
  PodSpec,
  PodTemplate,
  ResourceClaimTemplate,
} from "../../src/kube/workload-objects.ts";
import type { OwnedObjects } from "../frame/owned/observe.ts";
import type { ServiceStep } from "../frame/owned/steps.ts";
import { removals } from "../frame/owned/teardown.ts";
import { isLive, type Unscheduled } from "./pods.ts";
import type { Surroundings } from "./workload/contract.ts";

export interface ClaimTemplateSteps {
  /** Steps before those of the Deployment or the group, whose pods cannot start without their claims. */
  readonly before: readonly ServiceStep[];
  readonly after: readonly ServiceStep[];
}

/** A template cannot be changed, so a new one has another name. The old one stays until no pod may be created from it. */
export function stepsOfClaimTemplates(
  { claimTemplate }: Pick<Surroundings, "claimTemplate">,
  /** Those of the object to apply. */
  templates: readonly PodTemplate[],
  own: OwnedObjects,
): ClaimTemplateSteps {
  const name = claimTemplate?.metadata.name;
  const desired = templates.flatMap(({ spec }) => templatesOf(spec));
  const running = [
    ...own.deployments.map(({ spec }) => spec.template),
    ...own.groups.flatMap(({ spec }) => podTemplatesOf(spec.leaderWorkerTemplate)),
    ...own.pods.filter(isLive),
  ];
  const inUse = new Set([...desired, ...running.flatMap(({ spec }) => templatesOf(spec))]);
  const current = own.claimTemplates.find(({ metadata }) => metadata.name === name);
  // The object keeps an earlier template while nothing has changed that affects its pods.
  const isDesired = claimTemplate !== undefined && desired.includes(claimTemplate.metadata.name);
  const unused = own.claimTemplates.filter(({ metadata }) => !inUse.has(metadata.name));
  return {
    before: isDesired
      ? [{ do: "apply", what: "claimTemplates", object: claimTemplate, current, because: "its pods use it" }]
      : [],
    after: removals("claimTemplates", unused, "no pod of the service uses it"),
  };
}

/**
 * DeviceClasses that flavors may use: those that exist, and those that pods of the service use already. A class that is removed
 * must not replace pods that have their devices.
 */
export function usableClasses(
  existing: readonly KubeObject[],
  { claimTemplates }: Pick<OwnedObjects, "claimTemplates">,
): ReadonlySet<string> {
  return new Set([
    ...existing.map(({ metadata }) => metadata.name),
    ...claimTemplates.flatMap(alternativesOf).map(({ deviceClassName }) => deviceClassName),
  ]);
}

/** kube-scheduler places no pod while one DeviceClass of its claim is missing, even if it is that of the last flavor. */
export function withMissingClass(
  unscheduled: Unscheduled | undefined,
  { claimTemplates }: Pick<OwnedObjects, "claimTemplates">,
  existing: readonly KubeObject[],
): Unscheduled | undefined {
  const names = new Set(existing.map(({ metadata }) => metadata.name));
  const missing = claimTemplates
    .flatMap(alternativesOf)
    .find(({ deviceClassName }) => !names.has(deviceClassName));
  if (unscheduled === undefined || missing === undefined) return unscheduled;
  const text = `DeviceClass ${missing.deviceClassName} of flavor ${missing.name} does not exist`;
  return {
    ...unscheduled,
    code: "DeviceClassMissing",
    waitingFor: `DeviceClass ${missing.deviceClassName}`,
    message: `${text}; kube-scheduler: ${unscheduled.message}`,
  };
}

/** The templates of the pods of a group. */
export function podTemplatesOf({
  leaderTemplate,
  workerTemplate,
}: LeaderWorkerSet["spec"]["leaderWorkerTemplate"]): readonly PodTemplate[] {
  return [leaderTemplate, workerTemplate];
}

function templatesOf({ resourceClaims = [] }: PodSpec): readonly string[] {
  return resourceClaims.flatMap(({ resourceClaimTemplateName }) => resourceClaimTemplateName ?? []);
}

function alternativesOf({ spec }: ResourceClaimTemplate) {
  return spec.spec.devices.requests.flatMap(({ firstAvailable }) => firstAvailable);
}
