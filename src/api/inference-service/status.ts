/** InferenceService.status: what has become of it. Written by the controller alone. */
import { z } from "zod";
import { conditionsSchema } from "../conditions.ts";
import { modeSchema, runtimeSchema } from "../engine-settings.ts";
import { bytes, hostName } from "../fields/shared.ts";

export const SERVICE_PHASES = [
  "Pending",
  "Creating",
  "Progressing",
  "Ready",
  "WaitingForCapacity",
  "WaitingForGPU",
  "Stopped",
  "Suspended",
  "Failed",
] as const;

const count = (description: string) => z.int32().min(0).describe(description).optional();

const chosenSchema = z.object({
  replica: z.string().max(63).describe("Name of the InferenceReplica."),
  host: hostName("Host it was placed on."),
  score: z.number().describe("How well it fits; larger is better.").optional(),
  reason: z.string().max(1024).describe("Why this host, in one sentence.").optional(),
});

const missSchema = z.object({
  host: hostName("Host that was looked at."),
  reason: z.string().max(63).describe("Code for why it was not chosen."),
  message: z.string().max(1024).describe("The same as a sentence, with figures.").optional(),
  shortBytes: bytes("Bytes of memory that were missing, where that was the reason.").optional(),
  hint: z
    .string()
    .max(1024)
    .describe("Settings with which it would fit there beside what runs, for the nearest hosts.")
    .optional(),
});

const preemptedSchema = z.object({
  slot: z.int32().min(0).describe("Number of the replica within its service."),
  by: z.string().max(317).describe("The InferenceService that took its place, with its namespace."),
  host: hostName("Where that was."),
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
      description: "Replicas that made way for a higher priority and wait for another place.",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["slot"],
    })
    .optional(),
  reasons: z
    .record(z.string(), z.int32())
    .describe("How many hosts were refused for each reason.")
    .optional(),
});

export const inferenceServiceStatusSchema = z.object({
  phase: z
    .enum(SERVICE_PHASES)
    .describe("Where the service is: Ready means that all wanted replicas answer.")
    .optional(),
  reason: z.string().max(63).describe("Stable code for the phase; see docs/errors.md.").optional(),
  message: z.string().max(4096).describe("One sentence: what is so and what to do.").optional(),
  observedGeneration: z.int().min(0).describe("The metadata.generation this status was made for.").optional(),
  mode: modeSchema.describe("Mode in use.").optional(),
  runtime: runtimeSchema.describe("Runtime in use, chosen or given.").optional(),
  model: z
    .object({
      name: z.string().max(253).describe("Name of the Model.").optional(),
      source: z.string().max(2048).describe("Its source.").optional(),
      quantization: z.string().max(64).describe("Its quantization.").optional(),
      sizeBytes: bytes("Its size in bytes.").optional(),
    })
    .describe("The model that is served.")
    .optional(),
  currentRevision: z
    .string()
    .max(63)
    .describe("Revision that serves; during a rollout the one that is being replaced.")
    .optional(),
  updateRevision: z
    .string()
    .max(63)
    .describe("Revision that replicas are brought to; equal to currentRevision when no rollout is under way.")
    .optional(),
  replicas: count("Replicas that exist; read by the scale subresource."),
  readyReplicas: count("Replicas that answer: phase Ready on a host that is reachable."),
  updatedReplicas: count("Wanted replicas that have one of updateRevision, ready or not."),
  desiredReplicas: count("Replicas wanted now; 0 while suspended."),
  ready: z.string().max(16).describe("Ready and wanted replicas as one text, for example 1/2.").optional(),
  selector: z
    .string()
    .max(1024)
    .describe("Label selector of the replicas, for the scale subresource; never empty.")
    .optional(),
  endpoint: z.string().max(2048).describe("URL of the service inside the cluster.").optional(),
  placement: servicePlacementSchema.describe("Which hosts were chosen, and why others were not.").optional(),
  queuePosition: count("Place in the queue for capacity, 1 being next. Absent or 0: not waiting."),
  waitingFor: z.string().max(1024).describe("What is short, for example memory: 12.3 GiB.").optional(),
  effectivePriority: z.int32().describe("Priority as a number; larger goes first.").optional(),
  conditions: conditionsSchema.optional(),
});

export type InferenceServiceStatus = z.output<typeof inferenceServiceStatusSchema>;
export type ServicePlacement = z.output<typeof servicePlacementSchema>;
