/** Service level objectives that no alert watches. The services serve all the same. */
import type { ErrorEntry } from "./entry.ts";

export const objectiveErrors = {
  SLOKindsMissing: {
    what: "The service has spec.slo, but the cluster has neither the kind ServiceLevelObjective of pyrra.dev/v1alpha1 nor PrometheusRule of monitoring.coreos.com/v1.",
    do: "install the Prometheus operator, or Pyrra in addition; the objects are created automatically once the kind exists",
    command: "kubectl get crd prometheusrules.monitoring.coreos.com servicelevelobjectives.pyrra.dev",
  },
  SLOThresholdTooHigh: {
    what: "spec.slo.latencyThreshold is above the largest bucket of the gateway's histogram, so faster and slower requests cannot be distinguished. The message lists the buckets.",
    do: "set spec.slo.latencyThreshold to one of the buckets, or spec.slo.indicator to availability",
  },
} as const satisfies Record<string, ErrorEntry>;
