/** Builds the objects around the pods of a service: autoscaler, disruption budget, network policy and PodMonitor. Pure. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import { NAMESPACE_SYSTEM, PORT_NAME } from "../../src/api/group.ts";
import type { InferenceService, InferenceServiceSpec } from "../../src/api/inference-service/index.ts";
import { serviceName } from "../../src/api/names.ts";
import { MANAGED_BY, ownedObjectRef, ownerLabels } from "../../src/api/owned.ts";
import type { PodRuntime } from "../../src/engines/contract/pod.ts";
import type {
  HorizontalPodAutoscaler,
  NetworkPolicy,
  PodDisruptionBudget,
  PodMonitor,
} from "../../src/kube/workload-objects.ts";

/** Target of requests in flight per replica if the service names no metric. */
const DEFAULT_LOAD = "2";
/** A new replica takes minutes to load, so replicas are added at once and removed slowly. */
const BEHAVIOR = {
  scaleUp: { stabilizationWindowSeconds: 0, policies: [{ type: "Pods", value: 2, periodSeconds: 60 }] },
  scaleDown: { stabilizationWindowSeconds: 300, policies: [{ type: "Pods", value: 1, periodSeconds: 120 }] },
};

/** Throws `AutoscalingWithoutMetric`. Undefined without spec.autoscaling, and while the service is suspended or scaled to zero. */
export function autoscalerOf(
  service: InferenceService,
  pod: PodRuntime,
): HorizontalPodAutoscaler | undefined {
  const { autoscaling, suspend, replicas } = service.spec;
  if (autoscaling === undefined || suspend || replicas === 0) return undefined;
  const metrics = (autoscaling.metrics ?? [{ type: "Pods" as const }]).map((metric) => metricOf(metric, pod));
  return {
    apiVersion: "autoscaling/v2",
    kind: "HorizontalPodAutoscaler",
    metadata: metadataOf(service),
    spec: {
      scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name: serviceName(service.metadata.name) },
      minReplicas: autoscaling.minReplicas,
      maxReplicas: autoscaling.maxReplicas,
      metrics,
      behavior: BEHAVIOR,
    },
  };
}

type Metric = NonNullable<NonNullable<InferenceServiceSpec["autoscaling"]>["metrics"]>[number];

function metricOf(metric: Metric, pod: PodRuntime): Readonly<Record<string, unknown>> {
  const { type, targetAverageUtilization } = metric;
  const averageValue = metric.targetAverageValue ?? DEFAULT_LOAD;
  if (type === "Resource") {
    const target =
      targetAverageUtilization === undefined && metric.targetAverageValue !== undefined
        ? { type: "AverageValue", averageValue }
        : { type: "Utilization", averageUtilization: targetAverageUtilization ?? 80 };
    return { type, resource: { name: metric.name ?? "cpu", target } };
  }
  const name = metric.name ?? pod.metrics?.load;
  // Kubernetes would fall back to CPU utilization, which does not reflect the load of an engine on a GPU.
  if (name === undefined)
    throw new MetalbridgeError(
      "AutoscalingWithoutMetric",
      "spec.autoscaling: the runtime reports no metric to scale by, and spec.autoscaling.metrics names none",
    );
  const target = { type: "AverageValue", averageValue };
  return type === "External"
    ? { type, external: { metric: { name }, target } }
    : { type: "Pods", pods: { metric: { name }, target } };
}

/** Allows one disruption at a time, or none if the service forbids it. Undefined for a single pod, which a drain may always move. */
export function disruptionBudgetOf(
  service: InferenceService,
  replicas: number | undefined,
): PodDisruptionBudget | undefined {
  const { disruption, autoscaling } = service.spec;
  const isProtected = disruption?.protectAlways === true;
  const most = replicas ?? autoscaling?.maxReplicas ?? 1;
  if (!isProtected && most <= 1) return undefined;
  return disruptionBudget(service, isProtected ? 0 : 1);
}

/** The budget while a pod loads. No disruption is allowed, so IfHealthyBudget protects the unready pod too. */
export function startupBudgetOf(service: InferenceService): PodDisruptionBudget {
  return disruptionBudget(service, 0);
}

function disruptionBudget(service: InferenceService, maxUnavailable: number): PodDisruptionBudget {
  return {
    apiVersion: "policy/v1",
    kind: "PodDisruptionBudget",
    metadata: metadataOf(service),
    spec: {
      selector: { matchLabels: ownerLabels(service) },
      maxUnavailable,
      // A pod that crashes must not block the drain of its node; a pod that still loads must be protected.
      unhealthyPodEvictionPolicy:
        service.spec.disruption?.protectStartup === false ? "AlwaysAllow" : "IfHealthyBudget",
    },
  };
}

/** Undefined without spec.endpoint.allowFrom: then only the namespace's other policies apply. */
export function networkPolicyOf(service: InferenceService): NetworkPolicy | undefined {
  const { allowFrom } = service.spec.endpoint;
  if (allowFrom === undefined) return undefined;
  const namespaces = [...new Set([service.metadata.namespace ?? "default", NAMESPACE_SYSTEM, ...allowFrom])];
  const namespaceSelector = {
    matchExpressions: [{ key: "kubernetes.io/metadata.name", operator: "In", values: namespaces }],
  };
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: metadataOf(service),
    spec: {
      podSelector: { matchLabels: ownerLabels(service) },
      policyTypes: ["Ingress"],
      ingress: [{ from: [{ namespaceSelector }], ports: [{ port: PORT_NAME, protocol: "TCP" }] }],
    },
  };
}

/** Undefined for a runtime without metrics. */
export function podMonitorOf(service: InferenceService, pod: PodRuntime): PodMonitor | undefined {
  if (pod.metrics === undefined) return undefined;
  const { auth } = service.spec;
  const needsKey = pod.metrics.isProtected === true && auth !== undefined;
  return {
    apiVersion: "monitoring.coreos.com/v1",
    kind: "PodMonitor",
    metadata: metadataOf(service),
    spec: {
      selector: { matchLabels: ownerLabels(service) },
      podMetricsEndpoints: [
        {
          port: PORT_NAME,
          path: pod.metrics.path,
          interval: "15s",
          authorization: needsKey
            ? { type: "Bearer", credentials: { name: auth.secretRef.name, key: auth.key } }
            : undefined,
        },
      ],
    },
  };
}

function metadataOf(service: InferenceService) {
  return {
    ...ownedObjectRef(service, serviceName(service.metadata.name)),
    labels: { ...ownerLabels(service), ...MANAGED_BY },
  };
}
