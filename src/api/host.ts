/** Host: a machine that runs engines natively. Cluster-scoped; its spec is the operator's, its status the agent's. */
import { z } from "zod";
import { conditionsSchema } from "./conditions.ts";
import { hostMemorySchema } from "./fields/host-memory.ts";
import { quantity } from "./fields/quantity.ts";
import { reportedGpusSchema } from "./fields/reported-gpu.ts";
import { bytes, formatSchema, objectName, timestamp } from "./fields/shared.ts";
import { replicaModelSchema } from "./inference-replica.ts";
import { metadataSchema } from "./metadata.ts";

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
const fileNames = {
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

const hostSpecSchema = z.object({
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

const text = (description: string) => z.string().max(1024).describe(description).optional();
const number = (description: string) => z.int().min(0).describe(description).optional();

const hostInfoSchema = z.object({
  machineId: text("Stable id of the machine."),
  os: text("Operating system: darwin or linux."),
  osVersion: text("Its version, for example 26.1."),
  arch: text("Processor architecture, for example arm64."),
  chip: text("Name of the chip, for example Apple M4 Max."),
  hardwareModel: text("Model identifier, for example Mac16,5."),
  performanceCores: number("Performance cores (all cores, where there is one kind)."),
  efficiencyCores: number("Efficiency cores."),
  gpuCores: number("GPU cores."),
  gpus: reportedGpusSchema.optional(),
  memoryBytes: number("Installed memory in bytes."),
  memoryBandwidthGBs: z
    .number()
    .min(0)
    .describe("Memory bandwidth in GB/s, from the table of known chips.")
    .optional(),
  agentVersion: text("Version of the agent."),
  bootTime: text("When the machine last started."),
});

const hostRuntimeSchema = z.object({
  name: z
    .string()
    .max(63)
    .describe(
      "Runtime, as InferenceService.spec.runtime names it, or a program that runtime generic starts for services without a command.",
    ),
  version: z.string().max(253).describe("Its version or build.").optional(),
  path: z.string().max(4096).describe("Path of its executable.").optional(),
});

const hostModelSchema = z.object({
  source: z.string().max(2048).describe("Source of the model."),
  sha256: z.string().max(64).describe("Checksum of the main file, in hex.").optional(),
  sizeBytes: bytes("Bytes on disk.").optional(),
  fetchedAt: timestamp("When this copy was complete.").optional(),
  lastUsedAt: timestamp("When an engine last used it, to the hour.").optional(),
  tokensPerSecond: z
    .number()
    .min(0)
    .describe(
      "Generation speed on this host in tokens per second for one request: measured from the engine's counters while it serves, smoothed, rounded to two digits. Absent until 100 tokens and one second of work are measured.",
    )
    .optional(),
  inUse: z.boolean().describe("True while a replica of this host uses it.").optional(),
  pinned: z.boolean().describe("True: never evicted.").optional(),
  verifiedAt: timestamp("When all of its files were last known to match their checksums.").optional(),
  damaged: z
    .boolean()
    .describe("True: a file was found damaged and set aside; it is downloaded again when it is needed.")
    .optional(),
});

/** Of one host: its status must stay small. */
export const INSTALLED_MAX = 128;
export const INSTALLED_NAME_MAX = 256;

const hostInstalledSchema = z.object({
  source: z.string().max(INSTALLED_NAME_MAX).describe("As spec.source of a Model, or a file's name."),
  runtime: z.string().max(63).describe("Program that keeps it: ollama, omlx, lmstudio, huggingface, …"),
  sizeBytes: bytes("Bytes on disk.").optional(),
});

const hostPeerSchema = z.object({
  fingerprint: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .describe("SHA-256 of the certificate that this host proves itself with to other hosts."),
  port: z
    .int()
    .min(1)
    .max(65_535)
    .describe("Port on which it gives weights to other hosts. Absent while it does not listen.")
    .optional(),
  offers: z
    .array(
      z.object({
        sha256: z
          .string()
          .regex(/^[0-9a-f]{64}$/)
          .describe("Checksum of the file, in hex."),
        since: z.iso.datetime({ offset: true }).describe("When the download began."),
        complete: z.boolean().describe("True once the whole file is here.").optional(),
      }),
    )
    .max(64)
    .meta({
      description: "Files that this host is downloading, or has downloaded within the last ten minutes.",
      "x-kubernetes-list-type": "atomic",
    })
    .optional(),
});

/** Of one host. */
export const PREFETCH_MAX = 256;

const prefetchOrderSchema = z.object({
  namespace: z.string().max(63).describe("Namespace of the Model."),
  name: objectName("Name of the Model."),
  model: replicaModelSchema
    .omit({ gguf: true })
    .extend(fileNames)
    .describe("The weights, fully resolved: the agent reads no Model."),
});

const prefetchStateSchema = z.object({
  model: z.string().max(317).describe("namespace/name of the Model.").optional(),
  source: z.string().max(2048).describe("Source of the model."),
  phase: z
    .enum(["Pending", "Downloading", "Ready", "Failed"])
    .describe("Pending: waits, or is retried soon. Failed: a retry will not help before something changes."),
  reason: z.string().max(63).describe("Code of the last failure; see docs/errors.md.").optional(),
  message: z.string().max(1024).describe("What failed, then what to do.").optional(),
  bytes: bytes("Bytes that are here; in steps.").optional(),
  totalBytes: bytes("Bytes of all files, if known.").optional(),
});

const hostStatusSchema = z.object({
  conditions: conditionsSchema.optional(),
  reachableChanges: z
    .array(z.iso.datetime({ offset: true }))
    .max(30)
    .meta({
      description:
        "When the controller last saw the host come or go, the newest last: what Flapping is judged by. Old ones stay until the next.",
      "x-kubernetes-list-type": "atomic",
    })
    .optional(),
  addresses: z
    .array(z.string().max(49))
    .max(16)
    .describe("Addresses that the agent currently serves on.")
    .optional(),
  info: hostInfoSchema.describe("Hardware and OS of the machine.").optional(),
  runtimes: z
    .array(hostRuntimeSchema)
    .max(32)
    .meta({
      description: "Engines that are installed here.",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["name"],
    })
    .optional(),
  memory: hostMemorySchema.describe("Memory in bytes.").optional(),
  disk: z
    .object({
      totalBytes: number("Size of the volume that holds the store."),
      freeBytes: number("Free space on that volume, rounded."),
      usedBytes: number("Space that stored models take."),
    })
    .describe("Disk of the model store, in bytes.")
    .optional(),
  peer: hostPeerSchema
    .describe("How other hosts fetch weights from this one. Absent: they cannot.")
    .optional(),
  models: z
    .array(hostModelSchema)
    .max(1000)
    .meta({ description: "Models in this host's store.", "x-kubernetes-list-type": "atomic" })
    .optional(),
  installed: z
    .array(hostInstalledSchema)
    .max(INSTALLED_MAX)
    .meta({
      description:
        "Models that other programs keep on this machine, as far as the agent's user can read them. They are not in the store and not managed.",
      "x-kubernetes-list-type": "atomic",
    })
    .optional(),
  installedLeftOut: number("How many more such models there are, beyond the limits of this list."),
  prefetch: z
    .object({
      wanted: z
        .array(prefetchOrderSchema)
        .max(PREFETCH_MAX)
        .meta({
          description: "What this host is to fetch for Models with spec.prefetch; written by the controller.",
          "x-kubernetes-list-type": "atomic",
        })
        .optional(),
      models: z
        .array(prefetchStateSchema)
        .max(2 * PREFETCH_MAX)
        .meta({ description: "How far each is; written by the agent.", "x-kubernetes-list-type": "atomic" })
        .optional(),
    })
    .describe("Models that are fetched before any service needs them.")
    .optional(),
  verifyRequest: text("The spec.models.verifyRequest that was carried out last."),
  verifyDamaged: z
    .array(z.string().max(2048).describe("Source of the model."))
    .max(1000)
    .meta({
      description: "Models of which that verification found a damaged file, also where they are whole again.",
      "x-kubernetes-list-type": "atomic",
    })
    .optional(),
});

export const hostSchema = z.object({
  apiVersion: z.string().exactOptional(),
  kind: z.string().exactOptional(),
  metadata: metadataSchema,
  spec: hostSpecSchema.describe("Desired state of the host, set by the operator.").prefault({}),
  status: hostStatusSchema
    .describe("Status reported by the host's agent, with the controller's conditions Reachable and Lost.")
    .optional(),
});

export type HostSpec = z.output<typeof hostSpecSchema>;
export type HostStatus = z.output<typeof hostStatusSchema>;
export type HostInfo = z.output<typeof hostInfoSchema>;
export type HostRuntime = z.output<typeof hostRuntimeSchema>;
export type HostModels = z.output<typeof hostModelsSchema>;
export type HostModel = z.output<typeof hostModelSchema>;
export type PrefetchOrder = z.output<typeof prefetchOrderSchema>;
export type PrefetchState = z.output<typeof prefetchStateSchema>;
export type HostMemory = z.output<typeof hostMemorySchema>;
export type HostCompute = NonNullable<HostMemory["compute"]>;
export type HostInstalled = z.output<typeof hostInstalledSchema>;
export type HostPeer = z.output<typeof hostPeerSchema>;
export type Host = z.output<typeof hostSchema>;
