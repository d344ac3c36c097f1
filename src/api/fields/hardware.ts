/** Model.spec.hardware: accelerator, GPUs and memory limits. */
import { z } from "zod";
import { quantity } from "./quantity.ts";
import { int32, nonEmpty } from "./shared.ts";

const QUALIFIED = /^[a-z0-9.-]+\/[a-z0-9._-]+$/;

export const acceleratorSchema = z.enum(["cpu", "metal", "cuda", "rocm", "intel", "vulkan"]);
export type Accelerator = z.output<typeof acceleratorSchema>;

/** Default of a Model: hosts with an agent, whatever they compute on. */
export const DEFAULT_MODEL_ACCELERATOR: Accelerator = "metal";

const resourceClaimSchema = z
  .object({
    name: nonEmpty(63).describe("Name of the claim within the pod. One entry per name."),
    resourceClaimName: nonEmpty(253).describe("Name of an existing ResourceClaim.").optional(),
    resourceClaimTemplateName: nonEmpty(253)
      .describe("Name of a ResourceClaimTemplate from which each pod gets its own claim.")
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
    .describe("Strategy that distributes the model over several GPUs.")
    .default("layer"),
  layerSplit: z
    .array(
      z
        .string()
        .max(32)
        .regex(/^[0-9]+-[0-9]+$/),
    )
    .max(8)
    .describe("Layer ranges of the GPUs in order, for example 0-15 and 16-31.")
    .optional(),
});

const gpuSchema = z
  .object({
    enabled: z
      .boolean()
      .describe("If true, pods request a GPU. Ignored on hosts, where the accelerator decides.")
      .optional(),
    count: int32(0, 8).describe("Number of GPUs per pod.").optional(),
    memory: quantity(
      "Minimum memory of each GPU, for example 16Gi. Used to choose a node, not enforced.",
    ).optional(),
    vendor: z
      .enum(["nvidia", "amd", "intel"])
      .describe("GPU vendor, which determines the resource name.")
      .default("nvidia"),
    resourceName: z
      .string()
      .max(253)
      .regex(QUALIFIED)
      .describe(
        "Extended resource to request, for example nvidia.com/mig-1g.10gb. Defaults to the resource of the vendor.",
      )
      .optional(),
    tolerationKey: z
      .string()
      .max(253)
      .regex(QUALIFIED)
      .describe("Key of the taint to tolerate. Defaults to the resource of the vendor.")
      .optional(),
    runtime: z.enum(["vulkan", "rocm"]).describe("Backend for AMD GPUs.").optional(),
    layers: int32(-1, 1024)
      .describe("Number of layers that the GPU computes; 0 for none. Defaults to -1, which means all.")
      .optional(),
    sharding: shardingSchema.describe("Distribution of the model over several GPUs.").optional(),
    resourceClaims: z
      .array(resourceClaimSchema)
      .max(16)
      .meta({
        description: "ResourceClaims (dynamic resource allocation) to use instead of a number of GPUs.",
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
        "What the model is computed on, and thereby where its services run. metal: on hosts with an agent, which are Macs (Metal) and Linux machines (CPU). cpu: in pods on Linux nodes, on the CPU. cuda, rocm, intel and vulkan: in pods on Linux nodes, on GPUs. spec.placement.on of a service overrides where it runs: with Hosts, a model with accelerator cpu runs on hosts. Defaults to metal.",
      )
      .default(DEFAULT_MODEL_ACCELERATOR),
    gpu: gpuSchema
      .describe("GPUs of the model. Hosts use the field layers only; all other fields are for pods.")
      .optional(),
    memoryBudget: quantity(
      "Maximum memory that an engine of this model may claim on a host, for example 24Gi. Defaults to the free memory of the host.",
    ).optional(),
    memoryFraction: z
      .number()
      .gt(0)
      .max(1)
      .describe("Maximum memory claim as a fraction of the host's memory, greater than 0 and at most 1.")
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
