/** Metrics and behavior of autoscaling, which services and the configurations of BackendRuntimes have. */
import { z } from "zod";
import { passThrough } from "./kubernetes.ts";
import { quantity } from "./quantity.ts";
import { int32, nonEmpty } from "./shared.ts";

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

export function metricsSchema(description: string) {
  return z.array(metricSchema).max(16).meta({ description, "x-kubernetes-list-type": "atomic" }).optional();
}

export function behaviorSchema(description: string) {
  return passThrough(
    `${description} The behavior of a HorizontalPodAutoscaler (autoscaling/v2). Defaults to at most 2 new replicas per minute, and 1 replica less per 2 minutes after 5 minutes of lower load.`,
  ).optional();
}
