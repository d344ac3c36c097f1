/** How a change replaces the pods of a Deployment: spec.rollout, with defaults by whether a new pod needs a device. Pure. */
import type { InferenceServiceSpec } from "../../src/api/inference-service/index.ts";
import type { DeploymentStrategy, PodSpec } from "../../src/kube/workload-objects.ts";

type Limit = number | string;

/** No pod stops before another is ready. */
export const SURGE_ONE = rolling(0, 1);
/** One at a time gives its device to the next. */
export const UNAVAILABLE_ONE = rolling(1, 0);

export interface StrategyInput {
  readonly rollout: InferenceServiceSpec["rollout"];
  /** Each pod has a device of its node for itself. */
  readonly hasDevices: boolean;
  /** Undefined: an autoscaler decides. */
  readonly replicas: number | undefined;
}

/**
 * What is set is kept to. Without devices a new pod is ready before an old one stops. With devices the default is none to
 * spare. A single pod then leaves before the next is made: a next one that waits beside it would have kube-scheduler preempt
 * pods of lower priority for a device that is about to become free.
 */
export function strategyOf({ rollout, hasDevices, replicas = 2 }: StrategyInput): DeploymentStrategy {
  const isGapless = rollout.maxUnavailable !== undefined && isZero(rollout.maxUnavailable);
  const maxSurge = rollout.maxSurge ?? (isGapless || !hasDevices ? 1 : 0);
  if (hasDevices && replicas <= 1 && isZero(maxSurge)) return { type: "Recreate" };
  return rolling(rollout.maxUnavailable ?? (isZero(maxSurge) ? 1 : 0), maxSurge);
}

/** Age is no reason to serve with less: one more than wanted, or with devices one fewer, unless the service spares one. */
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

function rolling(maxUnavailable: Limit, maxSurge: Limit): DeploymentStrategy {
  return { type: "RollingUpdate", rollingUpdate: { maxUnavailable, maxSurge } };
}

export function isZero(limit: Limit): boolean {
  return limit === 0 || limit === "0%";
}
