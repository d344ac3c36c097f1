/** InferenceReplica: an engine of a service on a host, with all references resolved. It is the counterpart of a Pod. */
import { z } from "zod";
import { reportedConditions } from "./conditions.ts";
import { engineSettingsSchema } from "./engine-settings.ts";
import { ggufSchema } from "./fields/gguf.ts";
import { performanceSchema } from "./fields/performance.ts";
import { runtimeSchema } from "./fields/runtime-fields.ts";
import {
  bytes,
  changeMarkerSchema,
  fingerprintSchema,
  formatSchema,
  hostName,
  ignorePatternsSchema,
  int32,
  localReference,
  nonEmpty,
  objectName,
  prioritySchema,
  refreshPolicySchema,
  relativeFile,
  sha256Schema,
  shortText,
  summaryFields,
  timestamp,
} from "./fields/shared.ts";
import { objectFields } from "./metadata.ts";

/** Time in phase Ready after which a replica's crash count and backoff are reset. */
export const RESTARTS_RESET_AFTER_MS = 10 * 60_000;

export const replicaModelSchema = z.object({
  source: nonEmpty(2048).describe("Source of the weights, as in Model.spec.source."),
  files: z
    .array(relativeFile("Path of a file, relative to the source."))
    .max(256)
    .describe("Files to fetch. Empty if the source is a single file.")
    .default([]),
  ignorePatterns: ignorePatternsSchema.optional(),
  quantization: z
    .string()
    .max(64)
    .describe(
      "Quantization that selects the model in a folder on the host. For remote sources, files names the selected model.",
    )
    .optional(),
  revision: z
    .string()
    .max(128)
    .describe("Commit of the repository to fetch. Defaults to the revision in the source.")
    .optional(),
  changeMarker: changeMarkerSchema.optional(),
  mmproj: relativeFile("Projector file for image or audio input.").optional(),
  sha256: sha256Schema
    .describe(
      "Required SHA-256 of the main file, in hexadecimal digits. If absent, the checksum is not verified.",
    )
    .optional(),
  format: formatSchema.describe("Format of the weights."),
  gguf: ggufSchema
    .describe("Metadata from the header of the file, if the controller could read it.")
    .optional(),
  sizeBytes: bytes("Total size of all files in bytes, if known before the download.").optional(),
  secretRef: localReference(
    "Secret with the credentials for the source.",
    "Name of the Secret, in the replica's namespace.",
  ).optional(),
  refreshPolicy: refreshPolicySchema
    .describe(
      "Refresh policy of the Model. The content of a replica never changes: changed content is a new revision.",
    )
    .default("IfNotPresent"),
});

/** The same in a list, whose items have no defaults. The controller creates replicas with every field. */
const listedModelSchema = replicaModelSchema.extend({
  files: replicaModelSchema.shape.files.unwrap(),
  refreshPolicy: replicaModelSchema.shape.refreshPolicy.unwrap(),
});

export const LORA_ADAPTERS_MAX = 16;
export const loraScaleSchema = z
  .number()
  .min(-10)
  .max(10)
  .describe(
    "Strength of the adapter. 1 applies it as trained. 0 loads it without applying it until a request sets a scale.",
  );

const replicaAdapterSchema = z.object({
  model: listedModelSchema.describe("Weights of the adapter, resolved like the main model."),
  scale: loraScaleSchema,
  servedName: objectName(
    "Model name with which requests select the adapter, with scale 1. If absent, the adapter has no name.",
  ).optional(),
});
export type ReplicaAdapter = z.output<typeof replicaAdapterSchema>;

const replicaTemplateSchema = z.object({
  hostName: hostName("Name of the Host that runs this replica."),
  serviceName: objectName("Name of the InferenceService that owns the replica, in the same namespace."),
  serviceUid: nonEmpty(64).describe("UID of that InferenceService."),
  revision: nonEmpty(63).describe(
    "Hash of the template without hostName and revision. All replicas of a revision are identical.",
  ),
  runtime: runtimeSchema.describe("Runtime that runs the model."),
  model: replicaModelSchema.describe(
    "Resolved description of the weights. The agent does not read the Model.",
  ),
  draft: replicaModelSchema
    .describe("Draft model for speculative decoding, resolved like the main model.")
    .optional(),
  projector: replicaModelSchema
    .describe(
      "Projector for image or audio input, resolved like the main model. It replaces the projector of the main model.",
    )
    .optional(),
  loraAdapters: z
    .array(replicaAdapterSchema)
    .max(LORA_ADAPTERS_MAX)
    .meta({
      description: "LoRA adapters, in the order in which they are applied.",
      "x-kubernetes-list-type": "atomic",
    })
    .optional(),
  engine: engineSettingsSchema.describe("Engine settings with all defaults filled in."),
  auth: z
    .object({
      secretName: objectName("Name of the Secret with the API key, in the replica's namespace."),
      key: nonEmpty(253).describe("Key within the Secret."),
    })
    .describe("API key that clients must send. If absent, no key is required.")
    .optional(),
  gate: z
    .enum(["Always", "Never"])
    .describe(
      "Use of the gate in front of the engine. If absent, the gate is used if the runtime, auth or tls requires it.",
    )
    .optional(),
  tls: z
    .object({
      secretName: objectName("Name of the Secret with tls.crt and tls.key, in the replica's namespace."),
      clientCASecretName: objectName(
        "Name of the Secret with ca.crt, in the replica's namespace. If absent, clients need no certificate.",
      ).optional(),
    })
    .describe("TLS certificate of the gate. If absent, the gate serves plain HTTP.")
    .optional(),
  transport: z
    .enum(["Sealed"])
    .describe(
      "Sealed: the gate serves TLS with the key of its host, to the clients in spec.clientFingerprints only. If absent, it serves any client.",
    )
    .optional(),
});

const replicaMemorySchema = z.object({
  claimBytes: bytes("Memory reserved for this replica in bytes: the sum of the other fields."),
  weightsBytes: bytes("Weights in bytes, always in full because Metal wires them.").default(0),
  kvBytes: bytes("KV cache for the full context, in bytes.").default(0),
  computeBytes: bytes("Compute buffers, in bytes.").default(0),
  outputBytes: bytes("Output buffers, in bytes.").default(0),
  promptCacheBytes: bytes("Cache of earlier prompts, in bytes.").default(0),
  projectorBytes: bytes("Projector for image or audio input, in bytes.").default(0),
  draftBytes: bytes("Draft model with its KV cache, in bytes.").default(0),
  loraBytes: bytes("LoRA adapters, in bytes.").default(0),
  overheadBytes: bytes("The engine process itself, with a margin, in bytes.").default(0),
});

const replicaProbesSchema = z.object({
  startSeconds: int32(1, 86400)
    .describe(
      "Startup timeout in seconds, extended while the engine makes progress. Defaults to a value that scales with the size of the weights.",
    )
    .optional(),
  timeoutSeconds: int32(1, 600).describe("Timeout of one health probe in seconds.").default(5),
  failureThreshold: int32(1, 100)
    .describe(
      "Number of consecutive failed health probes, each on a new connection, after which the engine counts as hung.",
    )
    .default(3),
});

/** Certificates that may connect to a sealed replica: the current one of gateways and relays, and its successor during a rotation. */
export const CLIENT_FINGERPRINTS_MAX = 4;

export const DRAIN_SECONDS_DEFAULT = 30;
export const DRAIN_SECONDS_MAX = 3600;
export const HOST_LOST_SECONDS_DEFAULT = 300;

/** Value of `spec.drain.reason` for a preempted replica. */
export const DRAIN_PREEMPTED = "Preempted";

export const inferenceReplicaSpecSchema = z.object({
  template: replicaTemplateSchema.meta({
    description: "Engine, weights and host of the replica. Immutable: a change creates a new replica.",
    "x-kubernetes-validations": [
      {
        rule: "self == oldSelf",
        message: "spec.template is immutable: delete the replica and create another",
      },
    ],
  }),
  memory: replicaMemorySchema.describe(
    "Memory claim of the replica, itemized. It can change without a restart.",
  ),
  priority: prioritySchema
    .describe("Priority in the scheduling queue and under memory pressure.")
    .default("normal"),
  evictionProtection: z
    .boolean()
    .describe("If true, the engine is never evicted under memory pressure.")
    .default(false),
  probes: replicaProbesSchema.describe("Health probes of the engine.").prefault({}),
  drainSeconds: int32(0, DRAIN_SECONDS_MAX)
    .describe(
      "Maximum time in seconds to wait for requests in flight before the engine is stopped. Defaults to 30.",
    )
    .default(DRAIN_SECONDS_DEFAULT),
  hostLostSeconds: int32(1, 604800)
    .describe(
      "Time in seconds without a Lease renewal after which the host is marked lost and the replica is rescheduled. Defaults to 300.",
    )
    .default(HOST_LOST_SECONDS_DEFAULT),
  clientFingerprints: z
    .array(fingerprintSchema)
    .max(CLIENT_FINGERPRINTS_MAX)
    .meta({
      description:
        "SHA-256 fingerprints of the certificates of clients that may connect, with template.transport Sealed. Without an entry, no client may.",
      "x-kubernetes-list-type": "atomic",
    })
    .optional(),
  drain: z
    .object({
      reason: nonEmpty(63).describe("Reason code of the drain."),
      deadline: timestamp(
        "Drain deadline. Defaults to drainSeconds after all nodes have applied the withdrawal.",
      ).optional(),
    })
    .describe("Request of the controller to withdraw and drain the replica and to keep it stopped.")
    .optional(),
});

export const REPLICA_PHASES = [
  "Pending",
  "Fetching",
  "Admitting",
  "Starting",
  "Ready",
  "Draining",
  "Stopped",
  "Waiting",
  "Backoff",
  "Evicted",
  "Failed",
] as const;
const replicaPhaseSchema = z.enum(REPLICA_PHASES);
export type ReplicaPhase = z.output<typeof replicaPhaseSchema>;

const lastExitSchema = z.object({
  code: z.int32().describe("Exit code, if no signal terminated the process.").optional(),
  signal: shortText(32, "Signal that terminated the process, for example SIGKILL.").optional(),
  killedByUs: z.boolean().describe("True if the agent stopped the process.").optional(),
  reason: shortText(63, "Reason for the exit, derived from exit status and log.").optional(),
  at: timestamp("Time of the exit.").optional(),
  logTail: z.string().max(4096).describe("Last lines of the engine's log.").optional(),
});

export const TRANSITIONS_MAX = 10;
export const TRANSITION_MESSAGE_MAX = 512;

export const transitionSchema = z.object({
  at: timestamp("Time at which the agent observed the transition."),
  phase: replicaPhaseSchema.describe("The new phase."),
  reason: shortText(63, "Reason code; see docs/errors.md."),
  message: z.string().max(TRANSITION_MESSAGE_MAX).describe("Human-readable reason.").optional(),
});

export const inferenceReplicaStatusSchema = z.object({
  phase: replicaPhaseSchema
    .describe(
      "Phase of the replica. The replica is ready if the phase is Ready and the condition HostReachable is True.",
    )
    .optional(),
  reason: shortText(63, "Reason code of the phase; see docs/errors.md.").optional(),
  message: z
    .string()
    .max(2048)
    .describe("Human-readable description of the current state and of what to do about it.")
    .optional(),
  observedGeneration: summaryFields.observedGeneration,
  progress: z
    .object({
      bytes: bytes("Bytes fetched so far."),
      totalBytes: bytes("Total number of bytes to fetch, if known.").optional(),
      bytesPerSecond: z.number().min(0).describe("Current download speed in bytes per second.").optional(),
    })
    .describe("Download progress in phase Fetching. Updated at most every 5 seconds or 5 percent.")
    .optional(),
  port: int32(1, 65535).describe("Port on the host that the engine listens on.").optional(),
  pid: z.int32().min(1).describe("Process ID of the engine on its host.").optional(),
  startedAt: timestamp("Time at which the running process was started.").optional(),
  readyAt: timestamp("Time at which the replica last became ready.").optional(),
  nextTryAt: timestamp(
    "Time of the next retry, for example of a start or a download. Absent if no retry is pending.",
  ).optional(),
  restarts: z
    .int32()
    .min(0)
    .describe("Number of automatic restarts after the engine exited unexpectedly.")
    .optional(),
  contextPerSlot: z
    .int32()
    .min(0)
    .describe("Maximum number of tokens per request, as reported by the engine.")
    .optional(),
  lastExit: lastExitSchema.describe("Last exit of the engine.").optional(),
  memory: z
    .object({
      claimBytes: bytes("Memory reserved on the host, in bytes.").optional(),
      claimBasis: z
        .string()
        .max(256)
        .describe("Basis of the claim, if it cannot be derived from the files.")
        .optional(),
      footprintBytes: bytes("Most recently measured memory footprint of the engine, in bytes.").optional(),
    })
    .describe("Reserved and used memory.")
    .optional(),
  performance: performanceSchema
    .describe("Live performance of the engine, written at most every 30 seconds and only on change.")
    .optional(),
  model: z
    .object({
      sizeBytes: bytes("Total size of all files on the host, in bytes.").optional(),
      sha256: shortText(64, "SHA-256 of the main file, in hexadecimal digits.").optional(),
      gguf: ggufSchema.describe("Metadata from the header of the file.").optional(),
    })
    .describe("Model as found on the host.")
    .optional(),
  transitions: z
    .array(transitionSchema)
    .max(TRANSITIONS_MAX)
    .describe("Recent transitions of phase or reason, newest last.")
    .optional(),
  conditions: reportedConditions(8).optional(),
});

export const inferenceReplicaSchema = z.object({
  ...objectFields,
  spec: inferenceReplicaSpecSchema.describe("Desired state of the replica, set by the controller."),
  status: inferenceReplicaStatusSchema.describe("Status of the replica, reported by its agent.").optional(),
});

export type ReplicaModel = z.output<typeof replicaModelSchema>;
export type ReplicaTemplate = z.output<typeof replicaTemplateSchema>;
export type ReplicaMemory = z.output<typeof replicaMemorySchema>;
export type ReplicaProbes = z.output<typeof replicaProbesSchema>;
export type ReplicaTransition = z.output<typeof transitionSchema>;
export type LastExit = z.output<typeof lastExitSchema>;
export type InferenceReplicaStatus = z.output<typeof inferenceReplicaStatusSchema>;
export type InferenceReplica = z.output<typeof inferenceReplicaSchema>;

/** Everything that a template loads: the model, then draft, projector and adapters. */
export function weightsOfTemplate({
  model,
  draft,
  projector,
  loraAdapters = [],
}: Pick<ReplicaTemplate, "model" | "draft" | "projector" | "loraAdapters">): readonly ReplicaModel[] {
  const further = [draft, projector, ...loraAdapters.map((adapter) => adapter.model)];
  return [model, ...further.filter((one) => one !== undefined)];
}
