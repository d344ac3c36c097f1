/** Host.spec. */
import { z } from "zod";
import { quantity } from "./fields/quantity.ts";
import { formatSchema, nonEmpty, timestamp } from "./fields/shared.ts";
import { replicaModelSchema } from "./inference-replica.ts";

/** An EndpointSlice rejects loopback, link-local and unspecified addresses, so the Host rejects them first. */
const addressSchema = z
  .string()
  .min(2)
  .max(49)
  .meta({
    description: "An IP address or a CIDR.",
    "x-kubernetes-validations": [
      { rule: "isIP(self) || isCIDR(self)", message: "spec.addresses: each must be an IP address or a CIDR" },
      {
        rule: "!isIP(self) || !(ip(self).isLoopback() || ip(self).isLinkLocalUnicast() || ip(self).isUnspecified())",
        message:
          "spec.addresses: no loopback, link-local or unspecified address: an EndpointSlice cannot contain such an address",
      },
      {
        rule: "!isCIDR(self) || !cidr(self).ip().isLoopback()",
        message: "spec.addresses: loopback ranges are not allowed in an EndpointSlice",
      },
    ],
  });

/** Values that are wrong for every machine. A value that is too large for this machine is capped at what the machine reports. */
const memoryRules = [
  {
    rule: "!has(self.gpuBudget) || quantity(string(self.gpuBudget)).isGreaterThan(quantity('0'))",
    message:
      "spec.memory.gpuBudget must be greater than 0; to schedule nothing on this host set spec.unschedulable",
  },
  {
    rule: "!has(self.gpuBudget) || !quantity(string(self.gpuBudget)).isGreaterThan(quantity('64Ti'))",
    message: "spec.memory.gpuBudget must be at most 64Ti: no host has more memory",
  },
  {
    rule: "!has(self.systemReserve) || !quantity(string(self.systemReserve)).isGreaterThan(quantity('64Ti'))",
    message: "spec.memory.systemReserve must be at most 64Ti: no host has more memory",
  },
  {
    rule: "!has(self.gpuBudget) || !has(self.systemReserve) || quantity(string(self.systemReserve)).isLessThan(quantity(string(self.gpuBudget)))",
    message: "spec.memory.systemReserve must be less than spec.memory.gpuBudget, from which it is subtracted",
  },
];

/**
 * Optional, because an apply keeps no empty list, and items of lists have no defaults. No CEL rules here, because in nested lists they
 * exceed the API server's CEL cost budget; the Model has validated the names.
 */
export const fileNames = {
  files: z
    .array(z.string().max(512).describe("Path of a file, relative to the source."))
    .max(256)
    .meta({
      description: "Files to fetch. Empty if the source is a single file.",
      "x-kubernetes-list-type": "atomic",
    })
    .optional(),
  mmproj: z.string().max(512).describe("Projector file for image or audio input.").optional(),
};

const sources = (description: string) =>
  z
    .array(nonEmpty(2048).describe("Source of the model, as listed in status.models."))
    .max(256)
    .meta({ description, "x-kubernetes-list-type": "set" })
    .default([]);

const listOf = { "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["source"] };

export const hostModelsSchema = z.object({
  pinned: sources("Models that are never evicted from this host."),
  prefetch: z
    .array(
      replicaModelSchema
        .pick({ source: true, sha256: true, ignorePatterns: true, quantization: true })
        .extend({
          ...fileNames,
          format: formatSchema.describe("Format of the weights.").optional(),
        }),
    )
    .max(64)
    .meta({ description: "Models that the host downloads in advance and evicts last.", ...listOf })
    .default([]),
  removed: z
    .array(
      z.object({
        source: nonEmpty(2048).describe("Source of the model, as listed in status.models."),
        fetchedAt: timestamp(
          "status.models.fetchedAt of the copy to remove. A copy that is fetched later is kept.",
        ),
      }),
    )
    .max(256)
    .meta({ description: "Copies to remove once they are neither in use nor pinned.", ...listOf })
    .default([]),
  verifyRequest: z
    .string()
    .max(64)
    .describe(
      "Token that requests a verification. The host verifies its stored models when the value differs from status.verifyRequest.",
    )
    .optional(),
});

export const hostSpecSchema = z.object({
  addresses: z
    .array(addressSchema)
    .max(16)
    .meta({
      description:
        "IP addresses or CIDRs that this host may serve on, for example 192.168.1.20 or 192.168.1.0/24. The agent cannot publish any other address.",
      "x-kubernetes-list-type": "set",
    })
    .default([]),
  unschedulable: z
    .boolean()
    .describe("If true, the host is cordoned: no new replica is scheduled on it, and running replicas stay.")
    .default(false),
  drain: z
    .boolean()
    .describe(
      "If true, replicas are drained and rescheduled on other hosts, and no new replica is scheduled on this one.",
    )
    .default(false),
  memory: z
    .object({
      systemReserve: quantity(
        "Memory reserved for the operating system and other programs, for example 8Gi. It is subtracted from the GPU budget. Defaults to 0.",
      ).optional(),
      gpuBudget: quantity(
        "Total memory that engines may use, for example 48Gi. Overrides the GPU budget that the host reports.",
      ).optional(),
      evictionEnabled: z
        .boolean()
        .describe(
          "If false, no engine is evicted under memory pressure; new engines still wait until the pressure ends. Defaults to true.",
        )
        .default(true),
    })
    .meta({
      description: "Memory that engines may use, and eviction under memory pressure.",
      "x-kubernetes-validations": memoryRules,
    })
    .prefault({}),
  cost: z
    .number()
    .min(0)
    .describe(
      "Relative cost of running this host, in any unit that all hosts and nodes share, for example cents per hour. The placement score prefers cheaper machines. Nodes state theirs in the annotation metalbridge.dev/cost.",
    )
    .optional(),
  disk: z
    .object({
      quota: quantity(
        "Maximum disk space for stored models, for example 500Gi. The least recently used models are evicted first. Defaults to no limit.",
      ).optional(),
    })
    .describe("Limits on stored models.")
    .optional(),
  models: hostModelsSchema
    .describe(
      "Models that the host keeps, downloads and removes, as set by `metalbridge models` with `--host`.",
    )
    .optional(),
});
