/** Host: a machine that runs engines natively. It is cluster-scoped; the operator sets its spec, the agent its status. */
import { z } from "zod";
import { benchmarkOrderSchema, benchmarkStateSchema } from "./benchmark.ts";
import { reportedConditions } from "./conditions.ts";
import { hostMemorySchema } from "./fields/host-memory.ts";
import { reportedGpusSchema } from "./fields/reported-gpu.ts";
import { MODEL_KEEPERS } from "./fields/runtimes.ts";
import {
  bytes,
  fingerprintSchema,
  objectName,
  reachableAddress,
  shortText,
  timestamp,
  totalLength,
} from "./fields/shared.ts";
import { fileNames, type hostModelsSchema, hostSpecSchema } from "./host-spec.ts";
import { replicaModelSchema } from "./inference-replica.ts";
import { objectFields } from "./metadata.ts";

const text = (description: string) => shortText(128, description).optional();
const number = (description: string) => z.int().min(0).describe(description).optional();

const hostInfoSchema = z.object({
  machineId: text("Stable ID of the machine."),
  os: text("Operating system: darwin or linux."),
  osVersion: text("Version of the operating system, for example 26.1."),
  arch: text("Processor architecture, for example arm64."),
  chip: text("Name of the chip, for example Apple M4 Max."),
  hardwareModel: text("Model identifier, for example Mac16,5."),
  performanceCores: number("Number of performance cores, or of all cores if there is only one kind."),
  efficiencyCores: number("Number of efficiency cores."),
  avx512: z.boolean().describe("True if the processor has AVX-512.").optional(),
  gpuCores: number("Number of GPU cores."),
  gpus: reportedGpusSchema.optional(),
  memoryBytes: number("Installed memory in bytes."),
  memoryBandwidthGBs: z
    .number()
    .min(0)
    .describe("Memory bandwidth in GB/s, from a table of known chips.")
    .optional(),
  agentVersion: text("Agent version."),
  bootTime: text("Time of the last boot."),
});

const hostRuntimeSchema = z.object({
  name: shortText(
    80,
    "Name of the runtime as in InferenceService.spec.runtime, or of a program that runtime generic starts for services without a command, or backend/ and the name of a BackendRuntime that this host allows.",
  ),
  version: shortText(128, "Version or build of the runtime.").optional(),
  path: shortText(512, "Path of the executable.").optional(),
});

// These limits keep the status of a Host small: a thousand hosts must not fill the database of the cluster.
export const HOST_MODELS_MAX = 256;
/** Maximum number of characters of all sources together. */
export const SOURCES_LENGTH_MAX = 32_768;
export const DAMAGED_MAX = 64;
export const DAMAGED_LENGTH_MAX = 8_192;

const hostModelSchema = z.object({
  source: z.string().max(2048).describe("Source of the model."),
  sha256: z
    .string()
    .regex(/^[0-9a-fA-F]{0,64}$/)
    .max(64)
    .describe("SHA-256 of the main file, in hexadecimal digits.")
    .optional(),
  sizeBytes: bytes("Size on disk, in bytes.").optional(),
  fetchedAt: timestamp("Time at which the download of this copy finished.").optional(),
  lastUsedAt: timestamp("Time at which an engine last used the model, rounded to the hour.").optional(),
  tokensPerSecond: z
    .number()
    .min(0)
    .describe(
      "Generation speed of a single request on this host, in tokens per second. Measured from the engine's counters, smoothed, and rounded to two digits. Absent until 100 tokens and one second of work were measured.",
    )
    .optional(),
  inUse: z.boolean().describe("True while a replica on this host uses the model.").optional(),
  pinned: z.boolean().describe("True if the model is never evicted.").optional(),
  verifiedAt: timestamp("Time at which all of its files last matched their checksums.").optional(),
  damaged: z
    .boolean()
    .describe(
      "True if a damaged file was found and quarantined. The file is downloaded again when it is needed.",
    )
    .optional(),
});

export const INSTALLED_MAX = 128;
export const INSTALLED_NAME_MAX = 256;

const hostInstalledSchema = z.object({
  source: shortText(
    INSTALLED_NAME_MAX,
    "Source of the model in the form of Model.spec.source, or a file name.",
  ),
  runtime: shortText(63, `Program that stores the model: ${MODEL_KEEPERS}`),
  sizeBytes: bytes("Size on disk, in bytes.").optional(),
});

const hostPeerSchema = z.object({
  fingerprint: fingerprintSchema.describe(
    "SHA-256 fingerprint of the certificate that this host presents to other hosts.",
  ),
  port: z
    .int()
    .min(1)
    .max(65_535)
    .describe("Port on which the host serves weights to other hosts. Absent while it does not listen.")
    .optional(),
  offers: z
    .array(
      z.object({
        sha256: fingerprintSchema.describe("SHA-256 of the file, in hexadecimal digits."),
        since: timestamp("Time at which the download started."),
        complete: z.boolean().describe("True once the download has finished.").optional(),
      }),
    )
    .max(64)
    .meta({
      description: "Files that this host is downloading, or has downloaded within the last ten minutes.",
      "x-kubernetes-list-type": "atomic",
    })
    .optional(),
});

/** The current certificate, and its successor during a rotation. */
export const HOST_FINGERPRINTS_MAX = 2;

const hostTransportSchema = z.object({
  fingerprints: z.array(fingerprintSchema).max(HOST_FINGERPRINTS_MAX).meta({
    description:
      "SHA-256 fingerprints of the certificate with which the gate serves sealed replicas, and of its successor.",
    "x-kubernetes-list-type": "atomic",
  }),
});

const hostRemoteSchema = z.object({
  fingerprint: fingerprintSchema.describe(
    "SHA-256 fingerprint of the certificate that this host presents. The agent creates a new certificate at each start.",
  ),
  port: z.int().min(1).max(65_535).describe("Port of the remote access on the host's address."),
  logs: z.boolean().describe("True if users can read the logs of engines."),
  doctor: z.boolean().describe("True if users can run `metalbridge doctor --host`."),
});

/** Maximum number of orders of one host. */
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
    .extend({ ...fileNames, refreshPolicy: replicaModelSchema.shape.refreshPolicy.unwrap().optional() })
    .describe("Resolved description of the weights. The agent does not read the Model."),
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
    .describe(
      "Phase of the download. Pending: queued, or waiting for a retry. Failed: not retried until something changes.",
    ),
  reason: z
    .string()
    .max(63)
    .regex(/^[A-Za-z0-9]*$/)
    .describe("Reason code of the last failure; see docs/errors.md.")
    .optional(),
  message: shortText(256, "Human-readable description of the failure and its remedy.").optional(),
  bytes: bytes("Bytes downloaded so far, rounded.").optional(),
  totalBytes: bytes("Total size of all files in bytes, if known.").optional(),
});

export const hostStatusSchema = z.object({
  conditions: reportedConditions(20).optional(),
  reachableChanges: z
    .array(z.iso.datetime({ offset: true }))
    .max(30)
    .meta({
      description:
        "Times at which the host became reachable or unreachable, newest last. The condition Flapping is based on them. Old entries are removed when an entry is added.",
      "x-kubernetes-list-type": "atomic",
    })
    .optional(),
  addresses: z
    .array(reachableAddress("status.addresses", /^[0-9a-fA-F:.]+$/))
    .max(4)
    .meta({
      description: "IP addresses that the agent currently serves on.",
      "x-kubernetes-list-type": "atomic",
    })
    .optional(),
  info: hostInfoSchema.describe("Hardware and operating system of the machine.").optional(),
  runtimes: z
    .array(hostRuntimeSchema)
    .max(32)
    .meta({
      description: "Engines that are installed on this host.",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["name"],
    })
    .optional(),
  memory: hostMemorySchema.describe("Memory of the host.").optional(),
  disk: z
    .object({
      totalBytes: number("Size of the volume that holds the model store, in bytes."),
      freeBytes: number("Free space on that volume in bytes, rounded."),
      usedBytes: number("Space that the stored models use, in bytes."),
    })
    .describe("Disk usage of the model store.")
    .optional(),
  peer: hostPeerSchema
    .describe("Peer server from which other hosts fetch weights. Absent if this host does not serve weights.")
    .optional(),
  transport: hostTransportSchema
    .describe(
      "Identity of this host for gateways and relays. Absent if the agent cannot serve sealed replicas.",
    )
    .optional(),
  remote: hostRemoteSchema
    .describe("Remote access to this host for users of the cluster. Absent if it is disabled.")
    .optional(),
  models: z
    .array(hostModelSchema)
    .max(HOST_MODELS_MAX)
    .meta({
      description: "Models in the model store of this host: those in use first, then the most recently used.",
      "x-kubernetes-list-type": "atomic",
      ...totalLength(SOURCES_LENGTH_MAX, "status.models: sources", "source"),
    })
    .optional(),
  installed: z
    .array(hostInstalledSchema)
    .max(INSTALLED_MAX)
    .meta({
      description:
        "Models of other programs on this machine that the agent's user can read. They are neither in the model store nor managed.",
      "x-kubernetes-list-type": "atomic",
    })
    .optional(),
  installedLeftOut: number("Number of such models that do not fit in this list."),
  prefetch: z
    .object({
      wanted: z
        .array(prefetchOrderSchema)
        .max(PREFETCH_MAX)
        .meta({
          description: "Models with spec.prefetch that this host downloads. Written by the controller.",
          "x-kubernetes-list-type": "atomic",
        })
        .optional(),
      models: z
        .array(prefetchStateSchema)
        .max(PREFETCH_STATES_MAX)
        .meta({
          description: "State of each download. Written by the agent.",
          "x-kubernetes-list-type": "atomic",
          ...totalLength(PREFETCH_LENGTH_MAX, "status.prefetch.models: sources", "source"),
        })
        .optional(),
    })
    .describe("Models that are downloaded before a service needs them.")
    .optional(),
  benchmark: z
    .object({
      order: benchmarkOrderSchema
        .describe("Measurement that the host carries out while it is idle. Written by the controller.")
        .optional(),
      state: benchmarkStateSchema.describe("State of that measurement. Written by the agent.").optional(),
    })
    .describe("Benchmark of a model on this class of machine.")
    .optional(),
  verifyRequest: text("Value of spec.models.verifyRequest that was carried out last."),
  verifyDamaged: z
    .array(z.string().max(2048).describe("Source of the model."))
    .max(DAMAGED_MAX)
    .meta({
      ...totalLength(DAMAGED_LENGTH_MAX, "status.verifyDamaged"),
      description:
        "Models in which that verification found a damaged file, including models that were repaired since.",
      "x-kubernetes-list-type": "atomic",
    })
    .optional(),
});

export const hostSchema = z.object({
  ...objectFields,
  spec: hostSpecSchema.describe("Desired state of the host, set by the operator.").prefault({}),
  status: hostStatusSchema
    .describe(
      "Status of the host, reported by its agent. The controller writes the conditions Reachable, Lost and Flapping.",
    )
    .optional(),
});

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
export type HostTransport = z.output<typeof hostTransportSchema>;
export type HostRemote = z.output<typeof hostRemoteSchema>;
export type Host = z.output<typeof hostSchema>;
