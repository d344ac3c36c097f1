/** Keeps the autoscaler of a service, on any path. It sets spec.replicas, and the paths follow. */
import type { ConditionUpdate } from "../../../src/api/conditions.ts";
import { describeError, MetalbridgeError } from "../../../src/api/errors.ts";
import type { Runtime } from "../../../src/api/fields/runtimes.ts";
import type { InferenceService, InferenceServiceStatus } from "../../../src/api/inference-service/index.ts";
import type { RunsOn } from "../../../src/api/inference-service/rollout.ts";
import { autoscalingWithBackend } from "../../../src/capacity/backend.ts";
import { engineDescription } from "../../../src/engines/registry.ts";
import type { HorizontalPodAutoscaler, ScaledObject } from "../../../src/kube/workload-objects.ts";
import { type Rejection, rejectedCondition } from "../../frame/apply/rejection.ts";
import type { OwnedObjects } from "../../frame/owned/observe.ts";
import type { ServiceStep } from "../../frame/owned/steps.ts";
import { stepsOf } from "../../frame/owned/steps-of.ts";
import type { ControllerPorts } from "../../frame/ports.ts";
import { type AutoscalingSettings, REQUESTS_METRIC } from "../../frame/service/autoscaling.ts";
import type { LiveService } from "../../frame/service/path.ts";
import type { SealedTransport } from "../../frame/service/transport.ts";
import { type LoadGauges, planScaler, type ScalerPlan } from "./scaler.ts";

export interface ScalingPorts extends ControllerPorts {
  /** Read in each pass, because another adapter may take external.metrics.k8s.io. */
  readonly autoscaling: () => AutoscalingSettings;
  readonly transport: Pick<SealedTransport, "byDefault">;
}

export interface ScalingPlan {
  readonly steps: readonly ServiceStep[];
  readonly report: (rejections: readonly Rejection[]) => readonly ConditionUpdate[];
}

/** The status is that of the pass. Its runtime is undefined until it is chosen; an existing autoscaler then stays. */
export function planScaling(
  ports: ScalingPorts,
  live: LiveService,
  { on, status }: { readonly on: RunsOn; readonly status: InferenceServiceStatus },
): ScalingPlan {
  const { service, own } = live;
  const { runtime } = status;
  const isKnown = runtime !== undefined || on === "Hosts" || service.spec.autoscaling === undefined;
  const plan = isKnown
    ? planScaler({
        service: {
          ...service,
          status,
          spec: { ...service.spec, autoscaling: autoscalingWithBackend(service.spec, live.backend, on) },
        },
        on,
        runtime,
        gauges: loadGaugesOf(runtime, live),
        settings: ports.autoscaling(),
        defaultTransport: ports.transport.byDefault,
        hasKEDA: ports.watches.scaledObjects.isSynced(),
      })
    : undefined;
  const [autoscaler] = own.autoscalers;
  const [scaledObject] = own.scaledObjects;
  return {
    steps: plan === undefined ? [] : stepsOfScaler(plan, own),
    report: (rejections) => scalingConditions({ service, plan, autoscaler, scaledObject, rejections }),
  };
}

/** Gauges of the service replace those of its BackendRuntime, which replace those of its engine. */
export function loadGaugesOf(
  runtime: Runtime | undefined,
  { service, backend }: Pick<LiveService, "service" | "backend">,
): LoadGauges | undefined {
  const ofEngine = runtime && engineDescription(runtime)?.pod?.metrics;
  const [load] = service.spec.inFlightProbe?.gauges ?? backend?.spec.gauges?.running ?? [];
  return load === undefined ? ofEngine : { load, isProtected: ofEngine?.isProtected };
}

/** Two autoscalers would fight over the replicas, so the one is created once the other, with what it has created, is gone. */
export function stepsOfScaler(
  plan: ScalerPlan,
  own: Pick<OwnedObjects, "autoscalers" | "scaledObjects">,
): ServiceStep[] {
  const { autoscalers, scaledObjects } = own;
  const autoscaler = plan.at === "HPA" && scaledObjects.length === 0 ? plan.object : undefined;
  const scaledObject = plan.at === "KEDA" && autoscalers.length === 0 ? plan.object : undefined;
  return [
    ...stepsOf("autoscalers", autoscaler, autoscalers),
    ...stepsOf("scaledObjects", scaledObject, scaledObjects),
  ];
}

interface ScalingFacts {
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
  const rejected = rejectedCondition(ACTIVE, "False", rejections);
  if (rejected !== undefined) return [rejected];
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
