/** CPU, memory and GPUs of a pod, and the sharing of a GPU. */
import { z } from "zod";
import { quantity } from "./quantity.ts";
import { int32 } from "./shared.ts";

const gpuSharingSchema = z
  .object({
    mode: z
      .enum(["exclusive", "shared", "partitioned"])
      .describe(
        "exclusive: the pod has the GPU to itself. shared: the GPU is time-sliced. partitioned: the pod gets the MIG slice in profile. Defaults to exclusive.",
      )
      .optional(),
    profile: z
      .string()
      .max(63)
      .regex(/^[0-9]+g\.[0-9]+gb$/)
      .describe("MIG profile, for example 1g.10gb. Required with mode partitioned.")
      .optional(),
    memoryLimitGiB: int32(1, 1024)
      .describe("GPU memory that the service may use, in GiB. With mode shared only.")
      .optional(),
  })
  .meta({
    "x-kubernetes-validations": [
      {
        rule: "has(self.profile) == (has(self.mode) && self.mode == 'partitioned')",
        message: "resources.gpuSharing.profile is needed with mode partitioned, and only there",
      },
      {
        rule: "!has(self.memoryLimitGiB) || (has(self.mode) && self.mode == 'shared')",
        message: "resources.gpuSharing.memoryLimitGiB goes only with mode shared",
      },
    ],
  });

const limitsSchema = z.object({
  cpu: quantity("CPU limit, for example 4 or 1500m. At least the request.").optional(),
  memory: quantity("Memory limit, for example 8Gi. At least the request.").optional(),
});

const REQUESTS = { cpu: "cpu", memory: "memory", hostMemory: "memory" } as const;
const limitRules = Object.entries(REQUESTS).map(([request, limit]) => ({
  rule: `!has(self.limits) || !has(self.limits.${limit}) || !has(self.${request}) || !quantity(string(self.${request})).isGreaterThan(quantity(string(self.limits.${limit})))`,
  message: `resources.limits.${limit} is below resources.${request}: raise the limit, or lower the request`,
}));

const resourceFields = z.object({
  gpu: int32(0, 8).describe("Number of GPUs per pod. Defaults to the number in the Model.").optional(),
  cpu: quantity("CPU request, for example 2 or 500m.").optional(),
  memory: quantity("Memory request, for example 4Gi.").optional(),
  hostMemory: quantity(
    "Memory for weights that stay in CPU memory, for example 64Gi. Overrides memory.",
  ).optional(),
  ephemeralStorage: quantity("Ephemeral storage request, for example 20Gi.").optional(),
  gpuMemory: quantity("GPU memory that the service expects, for example 16Gi. Informational.").optional(),
  gpuSharing: gpuSharingSchema.describe("Sharing of a GPU with other services.").optional(),
  limits: limitsSchema
    .describe(
      "Limits of CPU and memory of the engine's container. Without a request, the limit is the request. In pods only.",
    )
    .optional(),
});

export const resourcesSchema = resourceFields.meta({ "x-kubernetes-validations": limitRules });

export type Resources = z.output<typeof resourceFields>;
