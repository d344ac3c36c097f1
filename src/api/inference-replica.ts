/** InferenceReplica: the Mac's counterpart of a Pod. One service on one host, everything resolved. */
import { z } from "zod";
import { conditionsSchema } from "./conditions.ts";
import { engineSettingsSchema, runtimeSchema } from "./engine-settings.ts";
import { ggufSchema } from "./fields/gguf.ts";
import {
  bytes,
  formatSchema,
  hostName,
  localReference,
  objectName,
  prioritySchema,
  refreshPolicySchema,
  relativeFile,
  sha256Schema,
  timestamp,
} from "./fields/shared.ts";
import { metadataSchema } from "./metadata.ts";

const replicaModelSchema = z.object({
  source: z.string().min(1).max(2048).describe("Where the weights come from, as Model.spec.source."),
  files: z
    .array(relativeFile("A file of the source, relative to it."))
    .max(256)
    .describe("Files to fetch; empty for the source's own single file.")
    .default([]),
  mmproj: relativeFile("The projector file for images or sound.").optional(),
  sha256: sha256Schema
    .describe("Checksum that the main file must have, in hex. Absent: not checked.")
    .optional(),
  format: formatSchema.describe("Format of the weights."),
  gguf: ggufSchema.describe("What the controller read from the file's header, where it could.").optional(),
  sizeBytes: bytes("Bytes of all files together, where they are known before the download.").optional(),
  secretRef: localReference(
    "Secret with the credentials for the source.",
    "Name of the Secret, in the replica's namespace.",
  ).optional(),
  refreshPolicy: refreshPolicySchema
    .describe("IfNotPresent keeps what is on the host; OnChange looks for a newer one at each start.")
    .default("IfNotPresent"),
});

const replicaTemplateSchema = z.object({
  hostName: hostName("The Host that runs this replica."),
  serviceName: objectName("The InferenceService it belongs to, in the same namespace."),
  serviceUid: z
    .string()
    .min(1)
    .max(64)
    .describe("The uid of that InferenceService, so that a new one of the same name is not mistaken for it."),
  revision: z
    .string()
    .min(1)
    .max(63)
    .describe("Hash of this template without host and revision; replicas of one revision run alike."),
  runtime: runtimeSchema.describe("The engine that runs the model."),
  model: replicaModelSchema.describe("The weights, fully resolved: the agent reads no Model."),
  draft: replicaModelSchema
    .describe("The draft model of speculative decoding, resolved the same way.")
    .optional(),
  engine: engineSettingsSchema.describe("Settings of the engine, defaults filled in."),
  auth: z
    .object({
      secretName: objectName("Secret with the API key, in the replica's namespace."),
      key: z.string().min(1).max(253).describe("Key within the Secret."),
    })
    .describe("The API key that clients must send. Absent: none is asked for.")
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
  overheadBytes: bytes("The process itself, and a margin.").default(0),
});

const replicaProbesSchema = z.object({
  startSeconds: z
    .int32()
    .min(1)
    .max(86400)
    .describe(
      "Seconds an engine may take to become ready, extended while progress is seen. Absent: scaled to the size of the weights.",
    )
    .optional(),
  timeoutSeconds: z.int32().min(1).max(600).describe("Seconds to wait for one health probe.").default(5),
  failureThreshold: z
    .int32()
    .min(1)
    .max(100)
    .describe(
      "Health probes that must fail in a row, each on a fresh connection, before the engine counts as hung.",
    )
    .default(3),
});

export const DRAIN_SECONDS_DEFAULT = 30;
export const DRAIN_SECONDS_MAX = 3600;
export const HOST_LOST_SECONDS_DEFAULT = 300;

/** `spec.drain.reason` of a replica that makes way for a higher priority. */
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
  memory: replicaMemorySchema.describe("The memory claim, by parts. It may be corrected without a restart."),
  priority: prioritySchema
    .describe("Who goes first under memory pressure and in the queue.")
    .default("normal"),
  evictionProtection: z.boolean().describe("True: memory pressure never ends this engine.").default(false),
  probes: replicaProbesSchema.describe("How the agent judges the engine's health.").prefault({}),
  drainSeconds: z
    .int32()
    .min(0)
    .max(DRAIN_SECONDS_MAX)
    .describe("Most seconds that requests in flight are waited for before the engine is stopped.")
    .default(DRAIN_SECONDS_DEFAULT),
  hostLostSeconds: z
    .int32()
    .min(1)
    .max(604800)
    .describe("Seconds of silence after which the host counts as lost and this replica is placed anew.")
    .default(HOST_LOST_SECONDS_DEFAULT),
  drain: z
    .object({
      reason: z.string().min(1).max(63).describe("Why it is to end, as a code."),
      deadline: timestamp(
        "When draining ends at the latest. Absent: drainSeconds after every node has seen the withdrawal.",
      ).optional(),
    })
    .describe("Set by the controller: withdraw this replica, drain it and keep it stopped.")
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
  code: z.int32().describe("Exit code, when it exited by itself.").optional(),
  signal: z.string().max(32).describe("Signal that ended it, for example SIGKILL.").optional(),
  killedByUs: z.boolean().describe("True when the agent ended it.").optional(),
  reason: z.string().max(63).describe("Code for why it ended, read from exit and log.").optional(),
  at: timestamp("When it ended.").optional(),
  logTail: z.string().max(8192).describe("The last lines of its log.").optional(),
});

/** Newest last. */
export const TRANSITIONS_MAX = 10;
export const TRANSITION_MESSAGE_MAX = 1_024;

export const transitionSchema = z.object({
  at: timestamp("When the agent saw it."),
  phase: replicaPhaseSchema.describe("The phase that began."),
  reason: z.string().max(63).describe("Stable code for it; see docs/errors.md."),
  message: z.string().max(TRANSITION_MESSAGE_MAX).describe("Why, in a sentence.").optional(),
});

const inferenceReplicaStatusSchema = z.object({
  phase: replicaPhaseSchema
    .describe("Where the engine is on its way; readiness is Ready here and HostReachable=True.")
    .optional(),
  reason: z.string().max(63).describe("Stable code for the phase; see docs/errors.md.").optional(),
  message: z.string().max(4096).describe("One sentence: what is so and what to do.").optional(),
  observedGeneration: z.int().min(0).describe("The metadata.generation this status was made for.").optional(),
  progress: z
    .object({
      bytes: bytes("Bytes fetched so far."),
      totalBytes: bytes("Bytes to fetch, where known.").optional(),
      bytesPerSecond: z.number().min(0).describe("Recent speed.").optional(),
    })
    .describe("Download progress while Fetching; written at most every 5 s and 5 %.")
    .optional(),
  port: z.int32().min(1).max(65535).describe("Port on the host that the engine listens on.").optional(),
  pid: z.int32().min(1).describe("Process id of the engine on its host.").optional(),
  startedAt: timestamp("When the running process was started.").optional(),
  readyAt: timestamp("When it last became ready.").optional(),
  nextTryAt: timestamp(
    "When what failed is tried again: the start of an engine that crashed, a download. Absent where nothing waits for its time.",
  ).optional(),
  restarts: z.int32().min(0).describe("How often the engine ended unasked and was started again.").optional(),
  contextPerSlot: z
    .int32()
    .min(0)
    .describe("Tokens one request may use, read back from the engine.")
    .optional(),
  lastExit: lastExitSchema.describe("How the engine last ended.").optional(),
  memory: z
    .object({
      claimBytes: bytes("Bytes reserved on the host.").optional(),
      footprintBytes: bytes("Bytes really used, as last measured.").optional(),
    })
    .describe("Memory reserved and used.")
    .optional(),
  model: z
    .object({
      sizeBytes: bytes("Bytes of all files on the host.").optional(),
      sha256: z.string().max(64).describe("Checksum of the main file, in hex.").optional(),
      gguf: ggufSchema.describe("What its header tells.").optional(),
    })
    .describe("What was really found on the host.")
    .optional(),
  transitions: z
    .array(transitionSchema)
    .max(TRANSITIONS_MAX)
    .describe("The last changes of phase, or of what stands in the way, newest last.")
    .optional(),
  conditions: conditionsSchema.optional(),
});

export const inferenceReplicaSchema = z.object({
  apiVersion: z.string().exactOptional(),
  kind: z.string().exactOptional(),
  metadata: metadataSchema,
  spec: inferenceReplicaSpecSchema.describe("The replica as the controller wants it."),
  status: inferenceReplicaStatusSchema.describe("The replica as its agent sees it.").optional(),
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
