/** Keeps the autoscaler of a service, on any path. It sets spec.replicas, and the paths follow. */
import type { ConditionUpdate } from "../../../src/api/conditions.ts";
import type { Runtime } from "../../../src/api/fields/runtimes.ts";
import type { RunsOn } from "../../../src/api/inference-service/rollout.ts";
import { engineDescription } from "../../../src/engines/registry.ts";
import type { ControllerPorts } from "../../watches/ports.ts";
import { applyServiceSteps } from "../apply/apply.ts";
import type { Rejection } from "../apply/rejection.ts";
import type { OwnedObjects } from "../owned/observe.ts";
import type { ServiceStep } from "../owned/steps.ts";
import { stepsOf } from "../owned/steps-of.ts";
import type { LiveService } from "../path.ts";
import { scalingConditions } from "./conditions.ts";
import { type AutoscalingSettings, type LoadGauges, planScaler, type ScalerPlan } from "./scaler.ts";

export interface ScalingPorts extends ControllerPorts {
  /** Read in each pass, because another adapter may take external.metrics.k8s.io. */
  readonly autoscaling: () => AutoscalingSettings;
}

export interface Scaled {
  readonly conditions: readonly ConditionUpdate[];
  readonly rejections: readonly Rejection[];
}

/** Observes, plans and applies. `runtime` is undefined until it is chosen; an existing autoscaler then stays. */
export async function scaleService(
  ports: ScalingPorts,
  live: LiveService,
  { on, runtime }: { readonly on: RunsOn; readonly runtime: Runtime | undefined },
): Promise<Scaled> {
  const { service, own } = live;
  const isKnown = runtime !== undefined || on === "Hosts" || service.spec.autoscaling === undefined;
  const plan = isKnown
    ? planScaler({
        service,
        on,
        runtime,
        gauges: loadGaugesOf(runtime, live),
        settings: ports.autoscaling(),
        hasKEDA: ports.watches.scaledObjects.isSynced(),
      })
    : undefined;
  const steps = plan === undefined ? [] : stepsOfScaler(plan, own);
  const { rejections } = await applyServiceSteps(ports, steps);
  const [autoscaler] = own.autoscalers;
  const [scaledObject] = own.scaledObjects;
  return {
    conditions: scalingConditions({ service, plan, autoscaler, scaledObject, rejections }),
    rejections,
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
  const others = plan.at === "HPA" ? scaledObjects : plan.at === "KEDA" ? autoscalers : [];
  if (others.length > 0)
    return [
      ...stepsOf("autoscalers", undefined, autoscalers),
      ...stepsOf("scaledObjects", undefined, scaledObjects),
    ];
  return [
    ...stepsOf("autoscalers", plan.at === "HPA" ? plan.object : undefined, autoscalers),
    ...stepsOf("scaledObjects", plan.at === "KEDA" ? plan.object : undefined, scaledObjects),
  ];
}
