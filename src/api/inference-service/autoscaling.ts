/** Autoscaling of a service, on hosts and in pods. */
import { z } from "zod";
import { stringMap } from "../fields/kubernetes.ts";
import { behaviorSchema, metricsSchema } from "../fields/scaling-metrics.ts";
import { int32, localReference, nonEmpty } from "../fields/shared.ts";

/** Every watcher of services caches them. */
const METADATA_LIMITS = { valueLength: 4096, totalLength: 4096 };

const kedaTriggerSchema = z.object({
  type: nonEmpty(64).describe("Type of the scaler, for example prometheus or cron."),
  name: nonEmpty(63).describe("Name of the trigger, unique in the service.").optional(),
  metadata: stringMap("metadata", METADATA_LIMITS, "Settings of the scaler. KEDA validates them."),
  metricType: z
    .enum(["AverageValue", "Value", "Utilization"])
    .describe("Type of the target. Defaults to AverageValue.")
    .optional(),
  useCachedMetrics: z
    .boolean()
    .describe("If true, KEDA reads the metric only once per polling interval.")
    .optional(),
  // A ClusterTriggerAuthentication would lend the credentials of the cluster to everyone who may create services.
  authenticationRef: localReference(
    "Credentials of the scaler: a TriggerAuthentication in the namespace of the service.",
    "Name of the TriggerAuthentication.",
  ).optional(),
});

export const autoscalingSchema = z
  .object({
    engine: z
      .enum(["HPA", "KEDA"])
      .describe(
        "Autoscaler that sets spec.replicas: a HorizontalPodAutoscaler of Kubernetes, or a ScaledObject of KEDA. Defaults to HPA.",
      )
      .default("HPA"),
    minReplicas: int32(0, 100)
      .describe("Minimum number of replicas. 0 needs engine KEDA. Defaults to 1.")
      .default(1),
    maxReplicas: int32(1, 100).describe("Maximum number of replicas. May be equal to minReplicas."),
    targetRequests: int32(1, 10_000)
      .describe(
        "Target number of requests per replica, processed and queued. Defaults to parallelSlots, or to 2. Ignored with metrics or triggers.",
      )
      .optional(),
    metrics: metricsSchema(
      "Metrics for engine HPA. Defaults to those of the configuration of the BackendRuntime, else to the number of requests per replica, processed and queued.",
    ),
    triggers: z
      .array(kedaTriggerSchema)
      .min(1)
      .max(8)
      .meta({
        description:
          "Triggers for engine KEDA. Defaults to the number of requests per replica, processed and queued.",
        "x-kubernetes-list-type": "atomic",
      })
      .optional(),
    behavior: behaviorSchema("Scaling behavior, with either engine."),
  })
  .meta({
    "x-kubernetes-validations": [
      {
        rule: "self.minReplicas <= self.maxReplicas",
        message: "autoscaling.minReplicas must not be larger than autoscaling.maxReplicas",
      },
      {
        rule: "self.engine == 'KEDA' || self.minReplicas > 0",
        message:
          "autoscaling.minReplicas 0 needs engine KEDA: a HorizontalPodAutoscaler scales to zero only with the alpha feature gate HPAScaleToZero",
      },
      {
        rule: "self.engine == 'HPA' || !has(self.metrics)",
        message: "autoscaling.metrics are for engine HPA; set autoscaling.triggers with engine KEDA",
      },
      {
        rule: "self.engine == 'KEDA' || !has(self.triggers)",
        message: "autoscaling.triggers are for engine KEDA; set autoscaling.metrics with engine HPA",
      },
    ],
  });

export type Autoscaling = z.output<typeof autoscalingSchema>;

/** False while a service is suspended: its autoscaler is removed, and spec.replicas keeps its value. */
export function isAutoscaled(spec: {
  readonly autoscaling?: Autoscaling | undefined;
  readonly suspend: boolean;
}): boolean {
  return spec.autoscaling !== undefined && !spec.suspend;
}
