/** Services that cannot be scaled automatically. They serve with the replicas that they have. */
import type { ErrorEntry } from "./entry.ts";

export const autoscalingErrors = {
  AutoscalingWithoutMetric: {
    what: "The service requests autoscaling, but the controller does not know its number of requests: in pods, the runtime has no such metric (tensorrt-llm, personaplex, generic), or it needs the API key; on hosts, a program is not behind the gate.",
    do: "set spec.autoscaling.metrics, or triggers for engine KEDA; for a program on hosts, set spec.endpoint.gate to Always; or remove spec.autoscaling",
  },
  ExternalMetricsOff: {
    what: "Replicas on hosts are scaled by their number of requests, which only the controller knows, and it does not serve the API external.metrics.k8s.io.",
    do: "let the controller serve it; if KEDA or another adapter serves it already, set spec.autoscaling.engine to KEDA or spec.autoscaling.metrics to a metric of that adapter",
    command:
      "helm upgrade metalbridge charts/metalbridge -n metalbridge-system --reuse-values --set autoscaling.externalMetrics=true",
  },
  ExternalMetricsTaken: {
    what: "Another adapter serves the API external.metrics.k8s.io, of which a cluster has only one server. It is not replaced.",
    do: "set spec.autoscaling.engine to KEDA if the adapter is KEDA, or spec.autoscaling.metrics to a metric of the adapter; or remove the adapter",
    command: "kubectl get apiservice v1beta1.external.metrics.k8s.io",
  },
  KEDANotInstalled: {
    what: "The service requests autoscaling with KEDA, but the cluster has no kind ScaledObject of keda.sh/v1alpha1: KEDA is not installed, or has another version.",
    do: "install KEDA 2, or set spec.autoscaling.engine to HPA; autoscaling starts automatically once the kind exists",
    command: "helm install keda keda --repo https://kedacore.github.io/charts -n keda --create-namespace",
  },
  KEDAWithoutLoad: {
    what: "KEDA reads the number of requests from the controller, which does not offer it.",
    do: "let the controller offer it, or set spec.autoscaling.triggers",
    command:
      "helm upgrade metalbridge charts/metalbridge -n metalbridge-system --reuse-values --set autoscaling.keda=true",
  },
} as const satisfies Record<string, ErrorEntry>;
