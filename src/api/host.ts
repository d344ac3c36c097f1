/** Host: a machine that runs engines natively. Cluster-scoped; its spec is the operator's, its status the agent's. */
import { z } from "zod";
import { reportedConditions } from "./conditions.ts";
import { hostMemorySchema } from "./fields/host-memory.ts";
import { reportedGpusSchema } from "./fields/reported-gpu.ts";
import { MODEL_KEEPERS } from "./fields/runtimes.ts";
import { bytes, objectName, shortText, timestamp, totalLength } from "./fields/shared.ts";
import { fileNames, type hostModelsSchema, hostSpecSchema } from "./host-spec.ts";
import { replicaModelSchema } from "./inference-replica.ts";
import { metadataSchema } from "./metadata.ts";

/** Other agents and the gateway connect to it: no name, which its owner could point anywhere. */
const servedAddressSchema = z
  .string()
  .min(2)
  .max(45)
  .regex(/^[0-9a-fA-F:.]+$/)
  .meta({
    description: "An IP address.",
    "x-kubernetes-validations": [
      {
        rule: "isIP(self) && !ip(self).isLoopback() && !ip(self).isLinkLocalUnicast() && !ip(self).isUnspecified()",
        message: "status.addresses: each must be an IP address that other machines can reach",
      },
    ],
  });

const text = (description: string) => shortText(128, description).optional();
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
  name: shortText(
    63,
    "Runtime, as InferenceService.spec.runtime names it, or a program that runtime generic starts for services without a command.",
  ),
  version: shortText(128, "Its version or build.").optional(),
  path: shortText(512, "Path of its executable.").optional(),
});

/** Maximum bytes that one host may write: a thousand hosts must not fill the database of the cluster. */
export const HOST_MODELS_MAX = 256;
/** All entries of a list together. */
export const SOURCES_LENGTH_MAX = 32_768;
export const DAMAGED_MAX = 64;
export const DAMAGED_LENGTH_MAX = 8_192;

const hostModelSchema = z.object({
  source: z.string().max(2048).describe("Source of the model."),
  sha256: z
    .string()
    .regex(/^[0-9a-fA-F]{0,64}$/)
    .max(64)
    .describe("Checksum of the main file, in hex.")
    .optional(),
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
  source: shortText(INSTALLED_NAME_MAX, "As spec.source of a Model, or a file's name."),
  runtime: shortText(63, `Program that keeps it: ${MODEL_KEEPERS}`),
  sizeBytes: bytes("Bytes on disk.").optional(),
});

const hostPeerSchema = z.object({
  fingerprint: z
    .string()
    .max(64)
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
          .max(64)
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

const hostRemoteSchema = z.object({
  fingerprint: z
    .string()
    .max(64)
    .regex(/^[0-9a-f]{64}$/)
    .describe(
      "SHA-256 of the certificate that this host proves itself with; new at each start of the agent.",
    ),
  port: z.int().min(1).max(65_535).describe("Port on the host's address."),
  logs: z.boolean().describe("Whether logs of engines can be read."),
  doctor: z.boolean().describe("Whether `metalbridge doctor --host` can be run."),
});

/** Of one host. */
export const PREFETCH_MAX = 256;
/** Maximum size of all orders as the API server stores them: a Host must stay below the 1.5 MiB limit of an object. */
export const PREFETCH_BYTES_MAX = 256 * 1024;
export const PREFETCH_STATES_MAX = 64;
export const PREFETCH_LENGTH_MAX = 8_192;

const prefetchOrderSchema = z.object({
  namespace: z.string().max(63).describe("Namespace of the Model."),
  name: objectName("Name of the Model."),
  model: replicaModelSchema
    .omit({ gguf: true })
    .extend(fileNames)
    .describe("The weights, fully resolved: the agent reads no Model."),
});

const prefetchStateSchema = z.object({
  model: z
    .string()
    .max(317)
    .regex(/^[a-z0-9.-]+\/[a-z0-9.-]+$/)
    .describe("namespace/name of the Model.")
    .optional(),
  source: z.string().max(2048).describe("Source of the model."),
  phase: z
    .enum(["Pending", "Downloading", "Ready", "Failed"])
    .describe("Pending: waits, or is retried soon. Failed: a retry will not help before something changes."),
  reason: z
    .string()
    .max(63)
    .regex(/^[A-Za-z0-9]*$/)
    .describe("Code of the last failure; see docs/errors.md.")
    .optional(),
  message: shortText(256, "What failed, then what to do.").optional(),
  bytes: bytes("Bytes that are here; in steps.").optional(),
  totalBytes: bytes("Bytes of all files, if known.").optional(),
});

export const hostStatusSchema = z.object({
  conditions: reportedConditions(20).optional(),
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
    .array(servedAddressSchema)
    .max(4)
    .meta({
      description: "Addresses that the agent currently serves on.",
      "x-kubernetes-list-type": "atomic",
    })
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
  remote: hostRemoteSchema
    .describe("What users of the cluster can read of this host without a login on it. Absent: nothing.")
    .optional(),
  models: z
    .array(hostModelSchema)
    .max(HOST_MODELS_MAX)
    .meta({
      description: "Models in this host's store: those in use, then those used last.",
      "x-kubernetes-list-type": "atomic",
      ...totalLength(SOURCES_LENGTH_MAX, "status.models: sources", "source"),
    })
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
        .max(PREFETCH_STATES_MAX)
        .meta({
          description: "How far each is; written by the agent.",
          "x-kubernetes-list-type": "atomic",
          ...totalLength(PREFETCH_LENGTH_MAX, "status.prefetch.models: sources", "source"),
        })
        .optional(),
    })
    .describe("Models that are fetched before any service needs them.")
    .optional(),
  verifyRequest: text("The spec.models.verifyRequest that was carried out last."),
  verifyDamaged: z
    .array(z.string().max(2048).describe("Source of the model."))
    .max(DAMAGED_MAX)
    .meta({
      ...totalLength(DAMAGED_LENGTH_MAX, "status.verifyDamaged"),
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
export type HostSystemInfo = z.output<typeof hostInfoSchema>;
export type HostRuntime = z.output<typeof hostRuntimeSchema>;
export type HostModels = z.output<typeof hostModelsSchema>;
export type HostModel = z.output<typeof hostModelSchema>;
export type PrefetchOrder = z.output<typeof prefetchOrderSchema>;
export type PrefetchState = z.output<typeof prefetchStateSchema>;
export type HostMemory = z.output<typeof hostMemorySchema>;
export type HostCompute = NonNullable<HostMemory["compute"]>;
export type HostInstalled = z.output<typeof hostInstalledSchema>;
export type HostPeer = z.output<typeof hostPeerSchema>;
export type HostRemote = z.output<typeof hostRemoteSchema>;
export type Host = z.output<typeof hostSchema>;
