/** The conditions of a service that is scaled automatically: copies of those of its autoscaler. Pure. */
import type { ConditionUpdate } from "../../../src/api/conditions.ts";
import { describeError, MetalbridgeError } from "../../../src/api/errors.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { HorizontalPodAutoscaler, ScaledObject } from "../../../src/kube/workload-objects.ts";
import { REQUESTS_METRIC } from "../../external-metrics/api.ts";
import { describeRejections, type Rejection } from "../apply/rejection.ts";
import type { ScalerPlan } from "./scaler.ts";

export interface ScalingFacts {
  readonly service: InferenceService;
  /** Undefined until the runtime is known. */
  readonly plan: ScalerPlan | undefined;
  readonly autoscaler: HorizontalPodAutoscaler | undefined;
  readonly scaledObject: ScaledObject | undefined;
  readonly rejections: readonly Rejection[];
}

type Found = Pick<ConditionUpdate, "status" | "reason" | "message">;

const ACTIVE = "ScalingActive";
const UNKNOWN = { status: "Unknown", reason: "AutoscalerNotEvaluated" } as const;
const NEEDS_ADAPTER =
  "install an adapter that serves metrics of pods to Kubernetes, such as prometheus-adapter, let the controller serve external metrics (autoscaling.externalMetrics of the chart), or name another metric in spec.autoscaling.metrics";

const NEEDS_LOAD =
  "check that a replica is ready; if status.performance.requestsUnknown is true, let the controller read the metrics of all ready pods (NetworkPolicy), or name another metric in spec.autoscaling.metrics";

/** Empty without spec.autoscaling. */
export function scalingConditions(facts: ScalingFacts): ConditionUpdate[] {
  const { service, plan, rejections } = facts;
  if (service.spec.autoscaling === undefined) return [];
  const [rejection] = rejections;
  if (rejection !== undefined)
    return [
      { type: ACTIVE, status: "False", reason: rejection.code, message: describeRejections(rejections) },
    ];
  switch (plan?.at) {
    case undefined:
      return [{ type: ACTIVE, ...UNKNOWN, message: "unknown until the runtime of the service is known" }];
    case "none": {
      const message =
        service.status?.idle?.state === "Idle" ? "the service is idle" : "the service is suspended";
      return [{ type: ACTIVE, status: "False", reason: "ScalingDisabled", message }];
    }
    case "blocked": {
      const message = describeError(new MetalbridgeError(plan.code, plan.message));
      return [{ type: ACTIVE, status: "False", reason: plan.code, message }];
    }
    case "HPA":
      return ofAutoscaler(facts.autoscaler);
    case "KEDA":
      return [{ type: ACTIVE, ...ofScaledObject(facts.scaledObject) }];
    default:
      return plan satisfies never;
  }
}

/** AbleToScale and ScalingLimited exist once the autoscaler has been evaluated. */
function ofAutoscaler(autoscaler: HorizontalPodAutoscaler | undefined): ConditionUpdate[] {
  const found = autoscaler?.status?.conditions ?? [];
  const others = ["AbleToScale", "ScalingLimited"].flatMap((type) => {
    const { status, reason = "Unknown", message = "" } = found.find((one) => one.type === type) ?? {};
    return status === undefined ? [] : [{ type, status, reason, message }];
  });
  return [{ type: ACTIVE, ...activeOf(found.find(({ type }) => type === ACTIVE)) }, ...others];
}

function activeOf(active: Partial<Found> | undefined): Found {
  if (active?.status === undefined)
    return { ...UNKNOWN, message: "the HorizontalPodAutoscaler has not been evaluated yet" };
  const { status, reason = UNKNOWN.reason, message = "" } = active;
  const isMetric = /^FailedGet(Pods|Object|External)Metric$/.test(reason);
  const isUnknown = message.includes(REQUESTS_METRIC) && message.includes("no metrics returned");
  const hint = isMetric ? `. To do: ${isUnknown ? NEEDS_LOAD : NEEDS_ADAPTER}` : "";
  return { status, reason, message: `${message}${hint}` };
}

/** KEDA reports Ready, Active (a trigger asks for replicas) and Paused. */
function ofScaledObject(scaledObject: ScaledObject | undefined): Found {
  const of = (type: string) => scaledObject?.status?.conditions?.find((one) => one.type === type);
  const paused = of("Paused");
  if (paused?.status === "True")
    return { status: "False", reason: paused.reason ?? "ScaledObjectPaused", message: paused.message ?? "" };
  const ready = of("Ready");
  if (ready === undefined)
    return { ...UNKNOWN, message: "KEDA has not evaluated the ScaledObject yet; is its operator running?" };
  const { status, reason = UNKNOWN.reason, message = "" } = ready;
  const active = of("Active")?.message;
  const more = status !== "True" || active === undefined ? "" : `; ${active}`;
  return { status, reason, message: `${message}${more}` };
}
