/** How a change replaces the pods of a Deployment: spec.rollout, with defaults that depend on whether pods use devices. Pure. */
import type { InferenceServiceSpec } from "../../../src/api/inference-service/index.ts";
import type { DeploymentStrategy, PodSpec } from "../../../src/kube/workload-objects.ts";

type Limit = number | string;

/** Stops no pod before its replacement is ready. */
export const SURGE_ONE = rolling(0, 1);
/** Stops one pod at a time, whose device its replacement uses. */
export const UNAVAILABLE_ONE = rolling(1, 0);

export interface StrategyInput {
  readonly rollout: InferenceServiceSpec["rollout"];
  /** True if each pod has exclusive use of a device of its node. */
  readonly hasDevices: boolean;
  /** Undefined if an autoscaler changes the number. */
  readonly replicas: number | undefined;
}

/**
 * Fields that the user sets apply unchanged. Without devices, the default is that a new pod is ready before an old one stops.
 * With devices, the default assumes that no device is free. A single pod then stops before the next one is created: a pending
 * pod would have kube-scheduler preempt pods of lower priority for a device that is about to become free.
 */
export function strategyOf({ rollout, hasDevices, replicas = 2 }: StrategyInput): DeploymentStrategy {
  const isGapless = rollout.maxUnavailable !== undefined && isZero(rollout.maxUnavailable);
  const maxSurge = rollout.maxSurge ?? (isGapless || !hasDevices ? 1 : 0);
  if (hasDevices && replicas <= 1 && isZero(maxSurge)) return { type: "Recreate" };
  return rolling(rollout.maxUnavailable ?? (isZero(maxSurge) ? 1 : 0), maxSurge);
}

/** How a change replaces groups. LeaderWorkerSet has no Recreate, and refuses limits that would both be rounded to 0. */
export function groupStrategyOf(input: StrategyInput): { maxUnavailable: Limit; maxSurge: Limit } {
  const strategy = strategyOf(input);
  const { maxUnavailable, maxSurge } = (strategy.type === "Recreate" ? UNAVAILABLE_ONE : strategy)
    .rollingUpdate;
  const { replicas = 1 } = input;
  const percent = typeof maxUnavailable === "string" ? Number.parseInt(maxUnavailable, 10) : undefined;
  const isNone = percent !== undefined && Math.floor((percent * replicas) / 100) === 0;
  return { maxUnavailable: isNone && isZero(maxSurge) ? 1 : maxUnavailable, maxSurge };
}

/** Replaces pods because of their age: with one additional pod, or one fewer if pods use devices and the service tolerates that. */
export function renewalStrategy(
  strategy: DeploymentStrategy,
  hasDevices: boolean,
  pods: number,
): DeploymentStrategy {
  if (strategy.type === "Recreate") return pods === 1 ? strategy : UNAVAILABLE_ONE;
  const { maxUnavailable, maxSurge } = strategy.rollingUpdate;
  if (!isZero(maxSurge) && (!hasDevices || isZero(maxUnavailable))) return SURGE_ONE;
  return UNAVAILABLE_ONE;
}

export function hasDevices({ containers }: PodSpec): boolean {
  return containers.some(
    ({ resources: { limits = {}, claims } = {} }) =>
      claims !== undefined || Object.keys(limits).some((name) => name.includes("/")),
  );
}

function rolling(
  maxUnavailable: Limit,
  maxSurge: Limit,
): DeploymentStrategy & { readonly type: "RollingUpdate" } {
  return { type: "RollingUpdate", rollingUpdate: { maxUnavailable, maxSurge } };
}

export function isZero(limit: Limit): boolean {
  return limit === 0 || limit === "0%";
}
