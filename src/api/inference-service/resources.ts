/** Resources, sharing of GPUs, model cache and autoscaling of services in pods. */
import { z } from "zod";
import { quantity } from "../fields/quantity.ts";

const gpuSharingSchema = z
  .object({
    mode: z
      .enum(["exclusive", "shared", "partitioned"])
      .describe(
        "exclusive: a GPU of its own; shared: time-sliced; partitioned: a slice of the GPU, named by profile.",
      )
      .default("exclusive"),
    profile: z
      .string()
      .max(63)
      .regex(/^[0-9]+g\.[0-9]+gb$/)
      .describe("MIG profile, for example 1g.10gb; with mode partitioned.")
      .optional(),
    memoryLimitGiB: z
      .int32()
      .min(1)
      .max(1024)
      .describe("GPU memory this service may use, in GiB; with mode shared.")
      .optional(),
  })
  .meta({
    "x-kubernetes-validations": [
      {
        rule: "has(self.profile) == (self.mode == 'partitioned')",
        message: "resources.gpuSharing.profile is needed with mode partitioned, and only there",
      },
      {
        rule: "!has(self.memoryLimitGiB) || self.mode == 'shared'",
        message: "resources.gpuSharing.memoryLimitGiB goes only with mode shared",
      },
    ],
  });

export const resourcesSchema = z.object({
  gpu: z.int32().min(0).max(8).describe("GPUs per pod. Absent: the Model's.").optional(),
  cpu: quantity("CPU request, for example 2 or 500m.").optional(),
  memory: quantity("Memory request, for example 4Gi.").optional(),
  hostMemory: quantity("Memory for weights kept on the CPU, for example 64Gi; overrides memory.").optional(),
  ephemeralStorage: quantity("Ephemeral storage request, for example 20Gi.").optional(),
  gpuMemory: quantity("GPU memory the service expects, for example 16Gi; information only.").optional(),
  gpuSharing: gpuSharingSchema.describe("How a GPU is shared with other services.").optional(),
});

export const modelCacheSchema = z
  .object({
    persistence: z
      .enum(["Cached", "Ephemeral"])
      .describe("Cached: weights live on a volume; Ephemeral: in the pod.")
      .optional(),
    claimName: z
      .string()
      .min(1)
      .max(253)
      .describe("PersistentVolumeClaim that holds the weights. Absent: the namespace's model cache.")
      .optional(),
  })
  .meta({
    "x-kubernetes-validations": [
      {
        rule: "!(has(self.claimName) && has(self.persistence) && self.persistence == 'Ephemeral')",
        message: "modelCache.claimName cannot be used with modelCache.persistence Ephemeral",
      },
    ],
  });

const metricSchema = z.object({
  type: z
    .enum(["Pods", "Resource", "External", "Object"])
    .describe("Kind of metric. On Macs only External and Object can work, since there are no pods."),
  name: z
    .string()
    .min(1)
    .max(253)
    .describe("Name of the metric or resource. Absent: the engine's number of running requests.")
    .optional(),
  targetAverageValue: quantity("Target value per replica.").optional(),
  targetAverageUtilization: z
    .int32()
    .min(1)
    .max(100)
    .describe("Target utilization in percent; with type Resource.")
    .optional(),
});

export const autoscalingSchema = z
  .object({
    minReplicas: z.int32().min(1).max(10).describe("Minimum number of replicas.").default(1),
    maxReplicas: z.int32().min(1).max(100).describe("Maximum number of replicas."),
    metrics: z
      .array(metricSchema)
      .max(16)
      .meta({
        description: "What replicas are counted by. Absent: requests running per replica.",
        "x-kubernetes-list-type": "atomic",
      })
      .optional(),
  })
  .meta({
    "x-kubernetes-validations": [
      {
        rule: "self.minReplicas <= self.maxReplicas",
        message: "autoscaling.minReplicas must not be larger than autoscaling.maxReplicas",
      },
    ],
  });
