/** Model.spec.flavors: the hardware that a model runs on, in order of preference. InferenceService.status shows the flavor in use. */
import { z } from "zod";
import { labelSelector, stringMap } from "./fields/kubernetes.ts";
import { quantity } from "./fields/quantity.ts";
import { int32, nonEmpty, totalLength } from "./fields/shared.ts";

/** As many as one prioritized request of a ResourceClaim has (firstAvailable). */
const FLAVORS_MAX = 8;

const NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;

/** Name of a flavor. It is also the name of a request in a ResourceClaim. */
const flavorName = (description: string) => nonEmpty(63).regex(NAME).describe(description);

const FLAVOR_MAP = { valueLength: 63, totalLength: 1_024, entries: 16 } as const;
const LIMITS_MAX = 8;
const LIMIT_NAMES_LENGTH_MAX = 1_024;
const ARGUMENTS_LENGTH_MAX = 2_048;

/** Label that Kubernetes' cloud providers and Karpenter set. */
export const INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type";

const paramsSchema = z.object({
  instanceType: nonEmpty(63)
    .regex(/^[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$/)
    .describe(
      `Instance type of the node, for example g6e.xlarge. Pods require the node label ${INSTANCE_TYPE_LABEL} with this value, so that Karpenter and cluster-autoscaler add a node of this type. Pods only.`,
    )
    .optional(),
  tensorParallelSize: int32(1, 64)
    .describe("Number of GPUs that share each layer. Pods only. Defaults to the choice of the runtime.")
    .optional(),
  pipelineParallelSize: int32(1, 64)
    .describe("Number of stages that the layers are split into. Pods only. Defaults to 1.")
    .optional(),
  image: nonEmpty(512)
    .describe("Container image, with a tag or a digest. Pods only. spec.image of a service overrides it.")
    .optional(),
  args: z
    .array(z.string().max(1_024))
    .max(32)
    .meta({
      description:
        "Additional arguments of the engine, before those in spec.extraArgs of a service (spec.args with runtime generic).",
      "x-kubernetes-list-type": "atomic",
      ...totalLength(ARGUMENTS_LENGTH_MAX, "flavors: params.args"),
    })
    .optional(),
});

const flavorSchema = z
  .object({
    name: flavorName("Name of the flavor, for example l40s. Services name it in spec.flavors."),
    hostSelector: labelSelector({ ...FLAVOR_MAP, expressions: 4, values: 16 })
      .describe(
        "Label selector for Hosts. A flavor with this field runs on hosts. An empty selector matches every Host.",
      )
      .optional(),
    limits: z
      .record(z.string(), quantity("Quantity, for example 2 or 64Gi."))
      .meta({
        description:
          "Resources of each pod by name, for example nvidia.com/gpu: 2. They are both requests and limits of the container, and replace the number of GPUs in spec.hardware.gpu.",
        maxProperties: LIMITS_MAX,
        "x-kubernetes-validations": [
          {
            rule: `self.map(key, size(key)).sum() <= ${LIMIT_NAMES_LENGTH_MAX}`,
            message: `flavors: names in limits have at most ${LIMIT_NAMES_LENGTH_MAX} characters together`,
          },
        ],
      })
      .optional(),
    nodeSelector: stringMap(
      "flavors: nodeSelector",
      FLAVOR_MAP,
      "Labels that a node must have, for example nvidia.com/gpu.product: NVIDIA-L40S.",
    ).optional(),
    deviceClass: nonEmpty(253)
      .regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/)
      .describe(
        "DeviceClass (dynamic resource allocation), for example gpu.nvidia.com. Used if the cluster has the class and all flavors for pods name one and have no params; otherwise, limits are requested. The number of devices is the number of GPUs in limits, or 1.",
      )
      .optional(),
    params: paramsSchema.describe("Engine settings for this hardware.").optional(),
  })
  .meta({
    "x-kubernetes-validations": [
      {
        rule: "has(self.hostSelector) || has(self.limits) || has(self.nodeSelector) || has(self.deviceClass) || (has(self.params) && has(self.params.instanceType))",
        message:
          "a flavor needs at least one of hostSelector, limits, nodeSelector, deviceClass and params.instanceType",
      },
      {
        rule: "!has(self.hostSelector) || !(has(self.limits) || has(self.nodeSelector) || has(self.deviceClass))",
        message:
          "a flavor is for hosts (hostSelector) or for pods (limits, nodeSelector, deviceClass), not for both; add a second flavor",
      },
      {
        rule: "!has(self.hostSelector) || !has(self.params) || !(has(self.params.image) || has(self.params.instanceType) || has(self.params.tensorParallelSize) || has(self.params.pipelineParallelSize))",
        message:
          "a flavor with hostSelector has only args in params: image, instanceType, tensorParallelSize and pipelineParallelSize are for pods",
      },
      {
        rule: `!has(self.params) || !has(self.params.instanceType) || !has(self.nodeSelector) || !('${INSTANCE_TYPE_LABEL}' in self.nodeSelector) || self.nodeSelector['${INSTANCE_TYPE_LABEL}'] == self.params.instanceType`,
        message: `params.instanceType and ${INSTANCE_TYPE_LABEL} in nodeSelector name different types: remove one of them`,
      },
    ],
  });

export type Flavor = z.output<typeof flavorSchema>;

export const flavorsSchema = z
  .array(flavorSchema)
  .min(1)
  .max(FLAVORS_MAX)
  .meta({
    description:
      "Hardware that the model runs on, in order of preference: a replica runs on the first flavor that has room. Hosts and pods may be mixed. Flavors decide where replicas run, so spec.hardware.accelerator and spec.placement.prefer of a service have no effect on that. If absent, spec.hardware and spec.placement of the service decide alone.",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
  });

/** Rules across spec.flavors and spec.hardware of a Model. */
export const flavorRules = [
  {
    rule: "!has(self.flavors) || !has(self.hardware) || !has(self.hardware.gpu) || !has(self.hardware.gpu.resourceClaims) || size(self.hardware.gpu.resourceClaims) == 0 || !self.flavors.exists(one, has(one.limits) || has(one.deviceClass))",
    message:
      "hardware.gpu.resourceClaims contradicts limits and deviceClass of flavors: remove the claims, or name only nodeSelector in flavors",
  },
  {
    rule: "!has(self.flavors) || !has(self.hardware) || !has(self.hardware.accelerator) || self.hardware.accelerator != 'cpu' || !self.flavors.exists(one, has(one.deviceClass))",
    message: "hardware.accelerator cpu contradicts deviceClass of a flavor: remove one of them",
  },
] as const;

/** InferenceService.spec.flavors. */
export const flavorNamesSchema = z.array(flavorName("Name of a flavor.")).min(1).max(FLAVORS_MAX).meta({
  description:
    "Names of flavors of the Model that this service may use. The order is that of the Model. Defaults to all of them.",
  "x-kubernetes-list-type": "set",
});

const skippedFlavorSchema = z.object({
  name: flavorName("Name of the flavor."),
  reason: nonEmpty(63).describe("Reason code for not using the flavor; see docs/errors.md."),
  message: z.string().max(1_024).describe("Human-readable reason, with numbers.").optional(),
});

export type SkippedFlavor = z.output<typeof skippedFlavorSchema>;

/** InferenceService.status.flavor. */
export const flavorStatusSchema = z.object({
  name: flavorName("Flavor in use. Absent if none can be used.").optional(),
  reason: z.string().max(1_024).describe("Human-readable reason for the choice.").optional(),
  skipped: z
    .array(skippedFlavorSchema)
    .max(FLAVORS_MAX)
    .meta({
      description: "Flavors that are preferred to the one in use, and why they were not used.",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["name"],
    })
    .optional(),
  available: flavorName(
    "Preferred flavor that has room now. It is used at the next rollout, or by live eviction.",
  ).optional(),
});

export type FlavorStatus = z.output<typeof flavorStatusSchema>;
