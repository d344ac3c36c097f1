/** Builds the objects around the pods of a service: disruption budget, network policy and PodMonitor. Pure. */
import { NAMESPACE_SYSTEM, PORT_NAME } from "../../../src/api/group.ts";
import { isAutoscaled } from "../../../src/api/inference-service/autoscaling.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { metadataOf, ownerLabels, podSelectorOf } from "../../../src/api/owned.ts";
import type { PodRuntime } from "../../../src/engines/contract/pod.ts";
import type { NetworkPolicy, PodDisruptionBudget, PodMonitor } from "../../../src/kube/workload-objects.ts";

/** Allows one disruption at a time, or none if the service forbids it. Undefined for a single pod, which a drain may always move. */
export function disruptionBudgetOf(
  service: InferenceService,
  replicas: number,
): PodDisruptionBudget | undefined {
  const { disruption, autoscaling } = service.spec;
  const isProtected = disruption?.protectAlways === true;
  const most = isAutoscaled(service.spec) ? (autoscaling?.maxReplicas ?? 1) : replicas;
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
      // LeaderWorkerSet recreates a group of which one pod is evicted, so the number of pods limits the number of groups.
      selector: { matchLabels: podSelectorOf(service) },
      maxUnavailable,
      // A pod that crashes must not block the drain of its node; a pod that still loads must be protected.
      unhealthyPodEvictionPolicy:
        service.spec.disruption?.protectStartup === false ? "AlwaysAllow" : "IfHealthyBudget",
    },
  };
}

/**
 * Undefined without spec.endpoint.allowFrom and spec.group: then only the namespace's other policies apply. The pods of a group
 * trust each other, so nothing else may reach them, except on the port for clients, which only the leader has.
 */
export function networkPolicyOf(service: InferenceService): NetworkPolicy | undefined {
  const { endpoint, group } = service.spec;
  if (endpoint.allowFrom === undefined && group === undefined) return undefined;
  const clients = { from: clientsOf(service), ports: [{ port: PORT_NAME, protocol: "TCP" }] };
  const podSelector = { matchLabels: podSelectorOf(service) };
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: metadataOf(service),
    spec: {
      podSelector,
      policyTypes: ["Ingress"],
      ingress: [clients, ...(group === undefined ? [] : [{ from: [{ podSelector }] }])],
    },
  };
}

/** Undefined for all clients. */
function clientsOf({ metadata, spec }: InferenceService): readonly object[] | undefined {
  const { allowFrom } = spec.endpoint;
  if (allowFrom === undefined) return undefined;
  const values = [...new Set([metadata.namespace ?? "default", NAMESPACE_SYSTEM, ...allowFrom])];
  const namespaceSelector = {
    matchExpressions: [{ key: "kubernetes.io/metadata.name", operator: "In", values }],
  };
  return [{ namespaceSelector }];
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
