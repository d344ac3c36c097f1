/** InferenceService.status: what has become of it. Written by the controller alone. */
import { z } from "zod";
import { conditionsSchema } from "../conditions.ts";
import { modeSchema } from "../engine-settings.ts";
import { runtimeSchema } from "../fields/runtime-fields.ts";
import { bytes, hostName } from "../fields/shared.ts";

export const SERVICE_PHASES = [
  "Pending",
  "Creating",
  "Progressing",
  "Ready",
  "Degraded",
  "WaitingForCapacity",
  "WaitingForGPU",
  "Stopped",
  "Suspended",
  "Failed",
] as const;

const count = (description: string) => z.int32().min(0).describe(description).optional();

const chosenSchema = z.object({
  replica: z.string().max(63).describe("Name of the InferenceReplica."),
  host: hostName("Host it is scheduled on."),
  score: z.number().describe("Score of the host; larger is better.").optional(),
  reason: z.string().max(1024).describe("Why this host was chosen; human-readable.").optional(),
});

const missSchema = z.object({
  host: hostName("Name of the candidate host."),
  reason: z.string().max(63).describe("Reason code: why the host was not chosen."),
  message: z.string().max(1024).describe("Human-readable message, with numbers.").optional(),
  shortBytes: bytes("Bytes of memory missing, if that was the reason.").optional(),
  hint: z
    .string()
    .max(1024)
    .describe(
      "Settings with which the replica would fit on this host beside current claims, for the nearest misses.",
    )
    .optional(),
});

const preemptedSchema = z.object({
  slot: z.int32().min(0).describe("Ordinal of the replica within its service."),
  by: z.string().max(317).describe("The InferenceService that preempted it, with its namespace."),
  host: hostName("Host of that replica."),
});

const servicePlacementSchema = z.object({
  chosen: z
    .array(chosenSchema)
    .max(200)
    .meta({
      description: "Hosts that were chosen, one entry per replica.",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["replica"],
    })
    .optional(),
  misses: z
    .array(missSchema)
    .max(10)
    .meta({
      description: "The nearest misses, at most ten, when not all replicas could be placed.",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["host"],
    })
    .optional(),
  preempted: z
    .array(preemptedSchema)
    .max(100)
    .meta({
      description: "Replicas preempted by a higher priority, queued for another host.",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["slot"],
    })
    .optional(),
  reasons: z.record(z.string(), z.int32()).describe("Number of hosts rejected, by reason.").optional(),
});

export const inferenceServiceStatusSchema = z.object({
  phase: z
    .enum(SERVICE_PHASES)
    .describe(
      "Ready: all wanted replicas are ready. Degraded: something needs attention; status.ready says what still serves.",
    )
    .optional(),
  reason: z.string().max(63).describe("Stable reason code of the phase; see docs/errors.md.").optional(),
  message: z
    .string()
    .max(4096)
    .describe("Human-readable message: what is the case, then what to do.")
    .optional(),
  observedGeneration: z
    .int()
    .min(0)
    .describe("The metadata.generation that this status is based on.")
    .optional(),
  mode: modeSchema.describe("Current mode.").optional(),
  on: z
    .string()
    .max(32)
    .describe(
      "What its replicas run on: Hosts, Pods, or Hosts+Pods; without replicas, what placement.on comes to.",
    )
    .optional(),
  runtime: runtimeSchema.describe("Runtime in use: chosen automatically, or spec.runtime.").optional(),
  model: z
    .object({
      name: z.string().max(253).describe("Name of the Model.").optional(),
      source: z.string().max(2048).describe("Its source.").optional(),
      quantization: z.string().max(64).describe("Its quantization.").optional(),
      sizeBytes: bytes("Its size in bytes.").optional(),
    })
    .describe("The served model.")
    .optional(),
  currentRevision: z
    .string()
    .max(63)
    .describe("Serving revision; during a rollout, the one being replaced.")
    .optional(),
  updateRevision: z
    .string()
    .max(63)
    .describe("Target revision of the rollout; equal to currentRevision when no rollout is in progress.")
    .optional(),
  replicas: count("Replicas that exist; read by the scale subresource."),
  readyReplicas: count("Ready replicas: phase Ready on a reachable host."),
  updatedReplicas: count("Replicas of updateRevision, ready or not."),
  desiredReplicas: count("Replicas wanted now; 0 while suspended."),
  ready: z.string().max(16).describe("Ready and desired replicas as one string, for example 1/2.").optional(),
  selector: z
    .string()
    .max(1024)
    .describe("Label selector of the replicas, for the scale subresource; never empty.")
    .optional(),
  endpoint: z.string().max(2048).describe("URL of the service inside the cluster.").optional(),
  placement: servicePlacementSchema
    .describe("Scheduling result: chosen hosts, and why others were rejected.")
    .optional(),
  queuePosition: count("Position in the scheduling queue; 1 is next. Absent or 0: not queued."),
  waitingFor: z.string().max(1024).describe("Missing resource, for example memory: 12.3 GiB.").optional(),
  effectivePriority: z.int32().describe("Priority as a number; larger is scheduled first.").optional(),
  conditions: conditionsSchema.optional(),
});

export type InferenceServiceStatus = z.output<typeof inferenceServiceStatusSchema>;
export type ServicePlacement = z.output<typeof servicePlacementSchema>;
