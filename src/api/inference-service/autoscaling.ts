/** Autoscaling of a service, on hosts and in pods. */
import { z } from "zod";
import { passThrough, stringMap } from "../fields/kubernetes.ts";
import { quantity } from "../fields/quantity.ts";
import { int32, localReference, nonEmpty } from "../fields/shared.ts";

/** Types of metrics of autoscaling/v2, with the field that has the source of the metric. */
const METRIC_SOURCES = {
  Pods: "pods",
  Resource: "resource",
  ContainerResource: "containerResource",
  Object: "object",
  External: "external",
} as const;

type MetricType = keyof typeof METRIC_SOURCES;
const METRIC_TYPES = Object.keys(METRIC_SOURCES) as [MetricType, ...MetricType[]];

const source = (type: MetricType) =>
  passThrough(`Metric of type ${type} as in autoscaling/v2. Replaces name and the targets.`).optional();

const isShort = "has(self.name) || has(self.targetAverageValue) || has(self.targetAverageUtilization)";
const hasSource = Object.values(METRIC_SOURCES)
  .map((field) => `has(self.${field})`)
  .join(" || ");

const metricSchema = z
  .object({
    type: z.enum(METRIC_TYPES).describe("Type of the metric."),
    name: nonEmpty(253)
      .describe("Name of the metric or resource. Defaults to the engine's number of running requests.")
      .optional(),
    targetAverageValue: quantity("Target value per replica.").optional(),
    targetAverageUtilization: int32(1, 100)
      .describe("Target utilization in percent. With type Resource only.")
      .optional(),
    pods: source("Pods"),
    resource: source("Resource"),
    containerResource: source("ContainerResource"),
    object: source("Object"),
    external: source("External"),
  })
  .meta({
    "x-kubernetes-validations": [
      ...Object.entries(METRIC_SOURCES).map(([type, field]) => ({
        rule: `!has(self.${field}) || self.type == '${type}'`,
        message: `autoscaling.metrics: ${field} needs type ${type}`,
      })),
      {
        rule: `!(${isShort}) || !(${hasSource})`,
        message:
          "autoscaling.metrics: set either name and the targets, or the metric in the form of autoscaling/v2",
      },
      {
        rule: "!(self.type in ['Object', 'ContainerResource']) || has(self.object) || has(self.containerResource)",
        message:
          "autoscaling.metrics: types Object and ContainerResource need the metric in the form of autoscaling/v2",
      },
    ],
  });

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
    metrics: z
      .array(metricSchema)
      .max(16)
      .meta({
        description:
          "Metrics for engine HPA. Defaults to the number of requests per replica, processed and queued.",
        "x-kubernetes-list-type": "atomic",
      })
      .optional(),
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
    behavior: passThrough(
      "Scaling behavior (behavior of a HorizontalPodAutoscaler, autoscaling/v2), with either engine. Defaults to at most 2 new replicas per minute, and 1 replica less per 2 minutes after 5 minutes of lower load.",
    ).optional(),
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
