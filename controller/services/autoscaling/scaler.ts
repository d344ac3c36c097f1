/** Builds the object that scales a service: a HorizontalPodAutoscaler or a ScaledObject of KEDA. Pure. */

import type { autoscalingErrors } from "../../../src/api/errors/autoscaling.ts";
import type { Runtime } from "../../../src/api/fields/runtimes.ts";
import { API_VERSION, LABEL_SERVICE } from "../../../src/api/group.ts";
import type { Autoscaling } from "../../../src/api/inference-service/autoscaling.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { RunsOn } from "../../../src/api/inference-service/rollout.ts";
import { metadataOf } from "../../../src/api/owned.ts";
import { effectiveSpec } from "../../../src/capacity/effective-spec.ts";
import { type Transport, transportOf } from "../../../src/capacity/transport.ts";
import { countsRequestsOnHosts } from "../../../src/engines/registry.ts";
import type { HorizontalPodAutoscaler, ScaledObject } from "../../../src/kube/workload-objects.ts";
import {
  type AutoscalingSettings,
  type ExternalMetricsOwner,
  loadPath,
  REQUESTS_METRIC,
} from "../../frame/service/autoscaling.ts";

/** The metrics of an engine in pods, as far as autoscaling needs them. */
export interface LoadGauges {
  readonly load: string;
  /** True if they require the API key. */
  readonly isProtected?: boolean | undefined;
}

export interface ScalerInput {
  readonly service: InferenceService;
  readonly on: RunsOn;
  /** Undefined until it is known. */
  readonly runtime: Runtime | undefined;
  /** Gauges of the runtime in pods; undefined if it does not report its requests. */
  readonly gauges: LoadGauges | undefined;
  readonly settings: AutoscalingSettings;
  /** For services that do not set `endpoint.transport`. */
  readonly defaultTransport: Transport;
  /** True if the cluster has the kind ScaledObject. */
  readonly hasKEDA: boolean;
}

export type ScalerPlan =
  | { readonly at: "none" }
  | { readonly at: "HPA"; readonly object: HorizontalPodAutoscaler }
  | { readonly at: "KEDA"; readonly object: ScaledObject }
  /** No autoscaler can be built. An existing one is removed, and spec.replicas stays. */
  | ({ readonly at: "blocked" } & NoMetric);

/** The reason why there is no metric to scale by. */
interface NoMetric {
  readonly code: keyof typeof autoscalingErrors;
  readonly message: string;
}

/** Target of requests per replica if neither the service nor the runtime sets one. */
const DEFAULT_REQUESTS = 2;
const DEFAULT_UTILIZATION = 80;
const NO_NAME = "a metric of spec.autoscaling.metrics has no name, and the runtime reports none";
const NO_KEDA = "the cluster has no kind ScaledObject of keda.sh/v1alpha1";
/** A new replica takes minutes to load, so replicas are added at once and removed slowly. */
const BEHAVIOR = {
  scaleUp: { stabilizationWindowSeconds: 0, policies: [{ type: "Pods", value: 2, periodSeconds: 60 }] },
  scaleDown: { stabilizationWindowSeconds: 300, policies: [{ type: "Pods", value: 1, periodSeconds: 120 }] },
};

/** "none" without spec.autoscaling and while the service is suspended. */
export function planScaler(input: ScalerInput): ScalerPlan {
  const { autoscaling: scaling, suspend } = input.service.spec;
  if (scaling === undefined || suspend) return { at: "none" };
  return scaling.engine === "KEDA" ? scaledObject(input, scaling) : podAutoscaler(input, scaling);
}

function podAutoscaler(input: ScalerInput, scaling: Autoscaling): ScalerPlan {
  const { service } = input;
  const metrics: Metric[] = [];
  for (const given of scaling.metrics ?? [undefined]) {
    const metric = given === undefined ? defaultMetric(input, scaling) : metricOf(given, input.gauges);
    if (isMissing(metric)) return { at: "blocked", ...metric };
    metrics.push(metric);
  }
  return {
    at: "HPA",
    object: {
      apiVersion: "autoscaling/v2",
      kind: "HorizontalPodAutoscaler",
      metadata: metadataOf(service),
      spec: {
        scaleTargetRef: targetOf(service),
        minReplicas: scaling.minReplicas,
        maxReplicas: scaling.maxReplicas,
        metrics,
        behavior: scaling.behavior ?? BEHAVIOR,
      },
    },
  };
}

function scaledObject(input: ScalerInput, scaling: Autoscaling): ScalerPlan {
  const { service, hasKEDA } = input;
  if (!hasKEDA) return { at: "blocked", code: "KEDANotInstalled", message: NO_KEDA };
  const triggers = scaling.triggers ?? defaultTriggers(input, scaling);
  if ("code" in triggers) return { at: "blocked", ...triggers };
  return {
    at: "KEDA",
    object: {
      apiVersion: "keda.sh/v1alpha1",
      kind: "ScaledObject",
      metadata: metadataOf(service),
      spec: {
        scaleTargetRef: targetOf(service),
        minReplicaCount: scaling.minReplicas,
        maxReplicaCount: scaling.maxReplicas,
        advanced: { horizontalPodAutoscalerConfig: { behavior: scaling.behavior ?? BEHAVIOR } },
        triggers,
      },
    },
  };
}

type Metric = Readonly<Record<string, unknown>>;

/** A metric of autoscaling/v2 has no code. */
function isMissing(metric: Metric | NoMetric): metric is NoMetric {
  return "code" in metric;
}

/** Requests per replica as the controller reports them, or as an adapter reports those of pods. */
function defaultMetric(input: ScalerInput, scaling: Autoscaling): Metric | NoMetric {
  const { service, on, gauges, settings } = input;
  const target = { type: "AverageValue", averageValue: String(targetOfRequests(input, scaling)) };
  const unreported = unreportedRequests(input);
  if (settings.externalMetrics === "ours" && unreported === undefined) {
    const selector = { matchLabels: { [LABEL_SERVICE]: service.metadata.name } };
    return { type: "External", external: { metric: { name: REQUESTS_METRIC, selector }, target } };
  }
  if (on === "Pods" && gauges !== undefined)
    return { type: "Pods", pods: { metric: { name: gauges.load }, target } };
  return unreported ?? notServed(settings.externalMetrics);
}

function notServed(owner: ExternalMetricsOwner): NoMetric {
  if (typeof owner === "string")
    return { code: "ExternalMetricsOff", message: "the controller does not serve external.metrics.k8s.io" };
  return { code: "ExternalMetricsTaken", message: `external.metrics.k8s.io is served by ${owner.other}` };
}

/** KEDA asks the controller. External metrics are no choice, because KEDA serves external.metrics.k8s.io itself. */
function defaultTriggers(input: ScalerInput, scaling: Autoscaling): readonly KEDATrigger[] | NoMetric {
  const { service, settings } = input;
  const unreported = unreportedRequests(input);
  if (unreported !== undefined) return unreported;
  if (settings.loadEndpoint === undefined)
    return { code: "KEDAWithoutLoad", message: "the controller runs without --load-endpoint" };
  const { namespace = "default", name } = service.metadata;
  const metadata = {
    url: `${settings.loadEndpoint}${loadPath(namespace, name)}`,
    valueLocation: "requestsInFlight",
    targetValue: String(targetOfRequests(input, scaling)),
  };
  return [{ type: "metrics-api", metadata }];
}

function targetOfRequests({ service, runtime }: ScalerInput, { targetRequests }: Autoscaling): number {
  return targetRequests ?? effectiveSpec(service, runtime).parallelSlots ?? DEFAULT_REQUESTS;
}

/** The reason why the controller does not know the number of requests. */
function unreportedRequests(input: ScalerInput): NoMetric | undefined {
  const { on, runtime, gauges, defaultTransport } = input;
  const { spec } = input.service;
  const code = "AutoscalingWithoutMetric";
  const { gate, tls } = spec.endpoint;
  const transport = transportOf(spec, defaultTransport);
  if (
    on !== "Pods" &&
    runtime !== undefined &&
    !countsRequestsOnHosts({ runtime, gate, tls, transport, auth: spec.auth })
  )
    return {
      code,
      message: "on hosts, only the gate counts requests of this runtime: set spec.endpoint.gate to Always",
    };
  if (on === "Hosts") return undefined;
  if (gauges === undefined) return { code, message: "the runtime does not report its requests in pods" };
  return spec.auth !== undefined && gauges.isProtected === true
    ? { code, message: "the metrics of the engine need the API key, which the controller does not use" }
    : undefined;
}

type KEDATrigger = NonNullable<Autoscaling["triggers"]>[number];
type GivenMetric = NonNullable<Autoscaling["metrics"]>[number];

function metricOf(metric: GivenMetric, gauges: LoadGauges | undefined): Metric | NoMetric {
  const { type, targetAverageUtilization, targetAverageValue } = metric;
  const { pods, resource, containerResource, object, external } = metric;
  if (pods ?? resource ?? containerResource ?? object ?? external) return metric;
  if (type === "Resource") {
    const target =
      targetAverageUtilization === undefined && targetAverageValue !== undefined
        ? { type: "AverageValue", averageValue: targetAverageValue }
        : { type: "Utilization", averageUtilization: targetAverageUtilization ?? DEFAULT_UTILIZATION };
    return { type, resource: { name: metric.name ?? "cpu", target } };
  }
  const name = metric.name ?? gauges?.load;
  // Kubernetes would fall back to CPU utilization, which does not reflect the load of an engine on a GPU.
  if (name === undefined) return { code: "AutoscalingWithoutMetric", message: NO_NAME };
  const target = { type: "AverageValue", averageValue: targetAverageValue ?? String(DEFAULT_REQUESTS) };
  return type === "External"
    ? { type, external: { metric: { name }, target } }
    : { type: "Pods", pods: { metric: { name }, target } };
}

/** The service itself and not its Deployment: the controller alone decides how many of the replicas run where. */
function targetOf({ metadata: { name } }: InferenceService) {
  return { apiVersion: API_VERSION, kind: "InferenceService", name };
}
