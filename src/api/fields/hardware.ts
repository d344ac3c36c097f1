/** Model.spec.hardware: which accelerator, how many GPUs, how much memory. */
import { z } from "zod";
import { quantity } from "./quantity.ts";

const QUALIFIED = /^[a-z0-9.-]+\/[a-z0-9._-]+$/;

const acceleratorSchema = z.enum(["cpu", "metal", "cuda", "rocm", "intel", "vulkan"]);
export type Accelerator = z.output<typeof acceleratorSchema>;

/** Of a Model that names none: hosts with an agent, whatever they compute on. */
export const DEFAULT_MODEL_ACCELERATOR: Accelerator = "metal";

const resourceClaimSchema = z
  .object({
    name: z.string().min(1).max(63).describe("Name of this claim within the pod; one entry per name."),
    resourceClaimName: z.string().min(1).max(253).describe("An existing ResourceClaim.").optional(),
    resourceClaimTemplateName: z
      .string()
      .min(1)
      .max(253)
      .describe("A ResourceClaimTemplate from which each pod gets its own claim.")
      .optional(),
  })
  .meta({
    "x-kubernetes-validations": [
      {
        rule: "has(self.resourceClaimName) != has(self.resourceClaimTemplateName)",
        message:
          "each entry of hardware.gpu.resourceClaims needs exactly one of resourceClaimName and resourceClaimTemplateName",
      },
    ],
  });

const shardingSchema = z.object({
  strategy: z
    .enum(["layer", "tensor", "row", "pipeline", "none"])
    .describe("How the model is split over several GPUs.")
    .default("layer"),
  layerSplit: z
    .array(
      z
        .string()
        .max(32)
        .regex(/^[0-9]+-[0-9]+$/),
    )
    .max(8)
    .describe("Range of layers for each GPU in turn, for example 0-15 and 16-31.")
    .optional(),
});

const gpuSchema = z
  .object({
    enabled: z
      .boolean()
      .describe("Requests a GPU on Linux nodes. On hosts the accelerator alone decides.")
      .optional(),
    count: z.int32().min(0).max(8).describe("GPUs per pod.").optional(),
    memory: quantity(
      "Memory that each GPU should have, for example 16Gi; used for choosing, not enforced.",
    ).optional(),
    vendor: z
      .enum(["nvidia", "amd", "intel"])
      .describe("GPU vendor; determines the resource name.")
      .default("nvidia"),
    resourceName: z
      .string()
      .max(253)
      .regex(QUALIFIED)
      .describe("Extended resource to request instead of the vendor's, for example nvidia.com/mig-1g.10gb.")
      .optional(),
    tolerationKey: z
      .string()
      .max(253)
      .regex(QUALIFIED)
      .describe("Taint to tolerate instead of the vendor's.")
      .optional(),
    runtime: z.enum(["vulkan", "rocm"]).describe("Backend for AMD GPUs.").optional(),
    layers: z
      .int32()
      .min(-1)
      .max(1024)
      .describe("Layers computed by the GPU: -1 or absent for all, 0 for none.")
      .optional(),
    sharding: shardingSchema.describe("Splitting over several GPUs.").optional(),
    resourceClaims: z
      .array(resourceClaimSchema)
      .max(16)
      .meta({
        description: "Claims of dynamic resource allocation, in place of counted GPUs.",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
      })
      .optional(),
  })
  .meta({
    "x-kubernetes-validations": [
      {
        rule: "!(has(self.resourceName) && has(self.resourceClaims) && size(self.resourceClaims) > 0)",
        message: "hardware.gpu.resourceName cannot be used together with hardware.gpu.resourceClaims",
      },
    ],
  });

export const hardwareSchema = z
  .object({
    accelerator: acceleratorSchema
      .describe(
        "Where the model runs. metal: hosts with an agent, which are Macs (Metal) and Linux machines (CPU). The others: pods on Linux nodes. spec.placement.on of a service overrides it.",
      )
      .default(DEFAULT_MODEL_ACCELERATOR),
    gpu: gpuSchema
      .describe(
        "GPUs, and how the model is distributed over them. Hosts read layers only; the rest is for pods.",
      )
      .optional(),
    memoryBudget: quantity(
      "Maximum memory that an engine of this model may claim on a host, for example 24Gi. Absent: the host's free memory.",
    ).optional(),
    memoryFraction: z
      .number()
      .gt(0)
      .max(1)
      .describe("Maximum claim as a fraction of the host's memory: above 0, at most 1.")
      .optional(),
  })
  .meta({
    "x-kubernetes-validations": [
      {
        rule: "!(has(self.memoryBudget) && has(self.memoryFraction))",
        message: "set only one of hardware.memoryBudget and hardware.memoryFraction",
      },
      {
        rule: "!has(self.memoryBudget) || (type(self.memoryBudget) == int ? int(self.memoryBudget) > 0 : !string(self.memoryBudget).matches('^[0.]+[a-zA-Z]*$'))",
        message: "hardware.memoryBudget must be greater than 0",
      },
    ],
  });
