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

export const resourcesSchema = z.object({
  gpu: int32(0, 8).describe("Number of GPUs per pod. Defaults to the number in the Model.").optional(),
  cpu: quantity("CPU request, for example 2 or 500m.").optional(),
  memory: quantity("Memory request, for example 4Gi.").optional(),
  hostMemory: quantity(
    "Memory for weights that stay in CPU memory, for example 64Gi. Overrides memory.",
  ).optional(),
  ephemeralStorage: quantity("Ephemeral storage request, for example 20Gi.").optional(),
  gpuMemory: quantity("GPU memory that the service expects, for example 16Gi. Informational.").optional(),
  gpuSharing: gpuSharingSchema.describe("Sharing of a GPU with other services.").optional(),
});
