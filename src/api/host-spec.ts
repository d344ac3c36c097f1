/** Host.spec: what the operator sets. */
import { z } from "zod";
import { quantity } from "./fields/quantity.ts";
import { formatSchema, timestamp } from "./fields/shared.ts";
import { replicaModelSchema } from "./inference-replica.ts";

/** An EndpointSlice refuses loopback, link-local and unspecified addresses; better to hear it here. */
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
          "spec.addresses: no loopback, link-local or unspecified address: an EndpointSlice may not hold one",
      },
      {
        rule: "!isCIDR(self) || !cidr(self).ip().isLoopback()",
        message: "spec.addresses: no loopback range: an EndpointSlice may not hold such addresses",
      },
    ],
  });

/** What no machine can mean. What only this machine cannot have is cut to what it reports. */
const memoryRules = [
  {
    rule: "!has(self.gpuBudget) || quantity(string(self.gpuBudget)).isGreaterThan(quantity('0'))",
    message: "spec.memory.gpuBudget must be greater than 0; to place nothing here set spec.unschedulable",
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

/** As in a Model, which has checked them: rules inside nested lists cost the API server too much. */
export const fileNames = {
  files: z
    .array(z.string().max(512).describe("A file of the source, relative to it."))
    .max(256)
    .meta({
      description: "Files to fetch; empty for a source that is one file.",
      "x-kubernetes-list-type": "atomic",
    })
    .default([]),
  mmproj: z.string().max(512).describe("The projector file for images or audio.").optional(),
};

const sources = (description: string) =>
  z
    .array(z.string().min(1).max(2048).describe("Source, as status.models shows it."))
    .max(256)
    .meta({ description, "x-kubernetes-list-type": "set" })
    .default([]);

const listOf = { "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["source"] };

export const hostModelsSchema = z.object({
  pinned: sources("Models that are never evicted here."),
  prefetch: z
    .array(
      replicaModelSchema
        .pick({ source: true, sha256: true, quantization: true })
        .extend({ ...fileNames, format: formatSchema.describe("Format of the weights.").optional() }),
    )
    .max(64)
    .meta({ description: "Models that are downloaded here and evicted last.", ...listOf })
    .default([]),
  removed: z
    .array(
      z.object({
        source: z.string().min(1).max(2048).describe("Source, as status.models shows it."),
        fetchedAt: timestamp("status.models.fetchedAt of the copy; one that is fetched later stays."),
      }),
    )
    .max(256)
    .meta({ description: "Copies that are to go, once they are neither in use nor pinned.", ...listOf })
    .default([]),
  verifyRequest: z
    .string()
    .max(64)
    .describe("Another value than status.verifyRequest: the stored models are verified now.")
    .optional(),
});

export const hostSpecSchema = z.object({
  addresses: z
    .array(addressSchema)
    .max(16)
    .meta({
      description:
        "IP addresses or CIDRs that this host may serve on, for example 192.168.1.20 or 192.168.1.0/24. An agent can publish no address outside them.",
      "x-kubernetes-list-type": "set",
    })
    .default([]),
  unschedulable: z
    .boolean()
    .describe("True: cordoned. No new replica is scheduled here; running replicas stay.")
    .default(false),
  drain: z
    .boolean()
    .describe(
      "True: replicas are drained and rescheduled on other hosts, and no new replica is scheduled here.",
    )
    .default(false),
  memory: z
    .object({
      systemReserve: quantity(
        "Memory kept free for macOS and other programs, subtracted from the GPU budget, for example 8Gi. Absent: 0.",
      ).optional(),
      gpuBudget: quantity(
        "Memory that engines may use together, in place of what the host itself reports, for example 48Gi.",
      ).optional(),
      evictionEnabled: z
        .boolean()
        .describe("False: no engine is evicted under memory pressure; new engines still wait.")
        .default(true),
    })
    .meta({
      description: "How much memory engines may use, and what happens under pressure.",
      "x-kubernetes-validations": memoryRules,
    })
    .prefault({}),
  disk: z
    .object({
      quota: quantity(
        "Most disk space for stored models, for example 500Gi; models unused for longest go first. Absent: no limit.",
      ).optional(),
    })
    .describe("Limits on stored models.")
    .optional(),
  models: hostModelsSchema
    .describe(
      "What the model store is to keep and to remove; `metalbridge models pin --host` and its siblings write it.",
    )
    .optional(),
});
