/** InferenceReplica: what a Pod is on nodes, on a host. One service on one host, everything resolved. */
import { z } from "zod";
import { reportedConditions } from "./conditions.ts";
import { engineSettingsSchema } from "./engine-settings.ts";
import { ggufSchema } from "./fields/gguf.ts";
import { runtimeSchema } from "./fields/runtime-fields.ts";
import {
  bytes,
  changeMarkerSchema,
  formatSchema,
  hostName,
  localReference,
  objectName,
  prioritySchema,
  refreshPolicySchema,
  relativeFile,
  sha256Schema,
  shortText,
  timestamp,
} from "./fields/shared.ts";
import { metadataSchema } from "./metadata.ts";

/** A replica that has been Ready for this long resets its crash count and its backoff. */
export const RESTARTS_RESET_AFTER_MS = 10 * 60_000;

export const replicaModelSchema = z.object({
  source: z.string().min(1).max(2048).describe("Source of the weights, as in Model.spec.source."),
  files: z
    .array(relativeFile("A file of the source, relative to it."))
    .max(256)
    .describe("Files to fetch; empty for a source that is a single file.")
    .default([]),
  quantization: z
    .string()
    .max(64)
    .describe(
      "Selects the model in a folder on the host. For remote sources, files already names the selected one.",
    )
    .optional(),
  revision: z
    .string()
    .max(128)
    .describe("Commit of the repository to fetch. Absent: the revision that the source names.")
    .optional(),
  changeMarker: changeMarkerSchema.optional(),
  mmproj: relativeFile("The projector file for images or audio.").optional(),
  sha256: sha256Schema
    .describe("Checksum that the main file must have, in hex. Absent: not checked.")
    .optional(),
  format: formatSchema.describe("Format of the weights."),
  gguf: ggufSchema.describe("Metadata from the file's header, if the controller could read it.").optional(),
  sizeBytes: bytes("Total size of all files in bytes, if known before the download.").optional(),
  secretRef: localReference(
    "Secret with the credentials for the source.",
    "Name of the Secret, in the replica's namespace.",
  ).optional(),
  refreshPolicy: refreshPolicySchema
    .describe(
      "As in Model.spec.refreshPolicy. The content of a replica never changes: other content is another revision.",
    )
    .default("IfNotPresent"),
});

export const LORA_ADAPTERS_MAX = 16;
export const loraScaleSchema = z
  .number()
  .min(-10)
  .max(10)
  .describe("Strength of the adapter: 1 as trained, 0 loaded but off until a request sets its own scale.");

const replicaTemplateSchema = z.object({
  hostName: hostName("The Host that runs this replica."),
  serviceName: objectName("The InferenceService it belongs to, in the same namespace."),
  serviceUid: z
    .string()
    .min(1)
    .max(64)
    .describe("The uid of that InferenceService, to distinguish it from a new one of the same name."),
  revision: z
    .string()
    .min(1)
    .max(63)
    .describe("Hash of this template without host and revision; replicas of one revision are identical."),
  runtime: runtimeSchema.describe("The engine that runs the model."),
  model: replicaModelSchema.describe("The weights, fully resolved: the agent reads no Model."),
  draft: replicaModelSchema
    .describe("The draft model of speculative decoding, resolved like the main model.")
    .optional(),
  loraAdapters: z
    .array(
      z.object({
        model: replicaModelSchema.describe("The adapter's weights, resolved like the main model."),
        scale: loraScaleSchema,
      }),
    )
    .max(LORA_ADAPTERS_MAX)
    .meta({ description: "LoRA adapters, in order.", "x-kubernetes-list-type": "atomic" })
    .optional(),
  engine: engineSettingsSchema.describe("Engine settings, with defaults filled in."),
  auth: z
    .object({
      secretName: objectName("Secret with the API key, in the replica's namespace."),
      key: z.string().min(1).max(253).describe("Key within the Secret."),
    })
    .describe("The API key that clients must send. Absent: none required.")
    .optional(),
  gate: z
    .enum(["Always", "Never"])
    .describe("Whether the gate is in front of the engine. Absent: if the engine, auth or tls needs it.")
    .optional(),
  tls: z
    .object({ secretName: objectName("Secret with tls.crt and tls.key, in the replica's namespace.") })
    .describe("The certificate that the gate serves. Absent: plain HTTP.")
    .optional(),
});

const replicaMemorySchema = z.object({
  claimBytes: bytes("Memory reserved for this replica: the sum of the parts below."),
  weightsBytes: bytes("Weights, always in full: on Metal they are wired.").default(0),
  kvBytes: bytes("KV cache for the engine's whole context.").default(0),
  computeBytes: bytes("Compute buffers.").default(0),
  outputBytes: bytes("Output buffers.").default(0),
  promptCacheBytes: bytes("Cache of earlier prompts.").default(0),
  projectorBytes: bytes("Projector for images or sound.").default(0),
  draftBytes: bytes("Draft model with its own KV cache.").default(0),
  loraBytes: bytes("LoRA adapters.").default(0),
  overheadBytes: bytes("The process itself, and a margin.").default(0),
});

const replicaProbesSchema = z.object({
  startSeconds: z
    .int32()
    .min(1)
    .max(86400)
    .describe(
      "Startup timeout in seconds, extended while the engine makes progress. Absent: scaled to the size of the weights.",
    )
    .optional(),
  timeoutSeconds: z.int32().min(1).max(600).describe("Timeout of one health probe in seconds.").default(5),
  failureThreshold: z
    .int32()
    .min(1)
    .max(100)
    .describe("Consecutive failed health probes, each on a new connection, before the engine counts as hung.")
    .default(3),
});

export const DRAIN_SECONDS_DEFAULT = 30;
export const DRAIN_SECONDS_MAX = 3600;
export const HOST_LOST_SECONDS_DEFAULT = 300;

/** `spec.drain.reason` of a preempted replica. */
export const DRAIN_PREEMPTED = "Preempted";

export const inferenceReplicaSpecSchema = z.object({
  template: replicaTemplateSchema.meta({
    description: "What runs and where. Immutable as a whole: a change is a new replica.",
    "x-kubernetes-validations": [
      {
        rule: "self == oldSelf",
        message: "spec.template is immutable: delete the replica and create another",
      },
    ],
  }),
  memory: replicaMemorySchema.describe("The memory claim, itemized. It can be corrected without a restart."),
  priority: prioritySchema
    .describe("Priority in the scheduling queue and under memory pressure.")
    .default("normal"),
  evictionProtection: z
    .boolean()
    .describe("True: this engine is never evicted under memory pressure.")
    .default(false),
  probes: replicaProbesSchema.describe("How the agent judges the engine's health.").prefault({}),
  drainSeconds: z
    .int32()
    .min(0)
    .max(DRAIN_SECONDS_MAX)
    .describe("Drain timeout: maximum seconds to wait for requests in flight before the engine is stopped.")
    .default(DRAIN_SECONDS_DEFAULT),
  hostLostSeconds: z
    .int32()
    .min(1)
    .max(604800)
    .describe(
      "Seconds without a Lease renewal after which the host is marked lost and this replica is rescheduled.",
    )
    .default(HOST_LOST_SECONDS_DEFAULT),
  drain: z
    .object({
      reason: z.string().min(1).max(63).describe("Reason code of the drain."),
      deadline: timestamp(
        "Drain deadline. Absent: drainSeconds after all nodes have applied the withdrawal.",
      ).optional(),
    })
    .describe("Set by the controller: withdraw and drain this replica, then keep it stopped.")
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
  code: z.int32().describe("Exit code, if the process exited without a signal.").optional(),
  signal: shortText(32, "Signal that terminated the process, for example SIGKILL.").optional(),
  killedByUs: z.boolean().describe("True if the agent stopped it.").optional(),
  reason: shortText(63, "Reason for the exit, derived from exit status and log.").optional(),
  at: timestamp("Time of the exit.").optional(),
  logTail: z.string().max(4096).describe("Log tail: the last lines of its log.").optional(),
});

/** Newest last. */
export const TRANSITIONS_MAX = 10;
export const TRANSITION_MESSAGE_MAX = 512;

export const transitionSchema = z.object({
  at: timestamp("When the agent saw it."),
  phase: replicaPhaseSchema.describe("The new phase."),
  reason: shortText(63, "Stable reason code; see docs/errors.md."),
  message: z.string().max(TRANSITION_MESSAGE_MAX).describe("Human-readable reason.").optional(),
});

export const inferenceReplicaStatusSchema = z.object({
  phase: replicaPhaseSchema
    .describe(
      "Phase of the replica. It is ready if the phase is Ready and the condition HostReachable is True.",
    )
    .optional(),
  reason: shortText(63, "Stable reason code of the phase; see docs/errors.md.").optional(),
  message: z
    .string()
    .max(2048)
    .describe("Human-readable message: what is the case, then what to do.")
    .optional(),
  observedGeneration: z
    .int()
    .min(0)
    .describe("The metadata.generation that this status is based on.")
    .optional(),
  progress: z
    .object({
      bytes: bytes("Bytes fetched so far."),
      totalBytes: bytes("Bytes to fetch, if known.").optional(),
      bytesPerSecond: z.number().min(0).describe("Current download speed in bytes per second.").optional(),
    })
    .describe("Download progress while Fetching; written at most every 5 s and 5 %.")
    .optional(),
  port: z.int32().min(1).max(65535).describe("Port on the host that the engine listens on.").optional(),
  pid: z.int32().min(1).describe("Process id of the engine on its host.").optional(),
  startedAt: timestamp("When the running process was started.").optional(),
  readyAt: timestamp("When it last became ready.").optional(),
  nextTryAt: timestamp(
    "Time of the next retry: a restart after a crash, a download. Absent when no retry is pending.",
  ).optional(),
  restarts: z
    .int32()
    .min(0)
    .describe("Number of automatic restarts after the engine exited unexpectedly.")
    .optional(),
  contextPerSlot: z
    .int32()
    .min(0)
    .describe("Maximum tokens per request, as reported by the engine.")
    .optional(),
  lastExit: lastExitSchema.describe("The engine's last exit.").optional(),
  memory: z
    .object({
      claimBytes: bytes("Bytes reserved on the host.").optional(),
      claimBasis: z
        .string()
        .max(256)
        .describe("What the claim is based on, where the files do not say what the engine will take.")
        .optional(),
      footprintBytes: bytes("Measured footprint in bytes, most recent reading.").optional(),
    })
    .describe("Memory reserved and used.")
    .optional(),
  model: z
    .object({
      sizeBytes: bytes("Bytes of all files on the host.").optional(),
      sha256: shortText(64, "Checksum of the main file, in hex.").optional(),
      gguf: ggufSchema.describe("Metadata from its header.").optional(),
    })
    .describe("The model as found on the host.")
    .optional(),
  transitions: z
    .array(transitionSchema)
    .max(TRANSITIONS_MAX)
    .describe("Recent transitions of phase or reason, newest last.")
    .optional(),
  conditions: reportedConditions(8).optional(),
});

export const inferenceReplicaSchema = z.object({
  apiVersion: z.string().exactOptional(),
  kind: z.string().exactOptional(),
  metadata: metadataSchema,
  spec: inferenceReplicaSpecSchema.describe("Desired state of the replica, set by the controller."),
  status: inferenceReplicaStatusSchema.describe("Status of the replica, reported by its agent.").optional(),
});

export type ReplicaModel = z.output<typeof replicaModelSchema>;
export type ReplicaTemplate = z.output<typeof replicaTemplateSchema>;
export type ReplicaMemory = z.output<typeof replicaMemorySchema>;
export type ReplicaProbes = z.output<typeof replicaProbesSchema>;
export type ReplicaTransition = z.output<typeof transitionSchema>;
export type LastExit = z.output<typeof lastExitSchema>;
export type InferenceReplicaSpec = z.output<typeof inferenceReplicaSpecSchema>;
export type InferenceReplicaStatus = z.output<typeof inferenceReplicaStatusSchema>;
export type InferenceReplica = z.output<typeof inferenceReplicaSchema>;
