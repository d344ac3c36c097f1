/** InferenceService.status, which only the controller writes. */
import { z } from "zod";
import { conditionsSchema } from "../conditions.ts";
import { modeSchema } from "../engine-settings.ts";
import { passThrough } from "../fields/kubernetes.ts";
import { modelOrigin } from "../fields/model-origin.ts";
import { totalPerformanceSchema } from "../fields/performance.ts";
import { runtimeSchema } from "../fields/runtime-fields.ts";
import { bytes, hostName, nonEmpty, summaryFields, timestamp } from "../fields/shared.ts";
import { flavorStatusSchema } from "../flavors.ts";
import { LORA_ADAPTERS_MAX } from "../inference-replica.ts";
import { MODEL_NAMES_MAX } from "./endpoint.ts";
import { idleStatusSchema } from "./idle.ts";

export const SERVICE_PHASES = [
  "Pending",
  "Creating",
  "Progressing",
  "Ready",
  "Degraded",
  "WaitingForCapacity",
  "WaitingForGPU",
  "Idle",
  "Stopped",
  "Suspended",
  "Failed",
] as const;

const count = (description: string) => z.int32().min(0).describe(description).optional();

const chosenSchema = z.object({
  replica: z.string().max(63).describe("Name of the InferenceReplica."),
  host: hostName("Host that the replica is scheduled on."),
  score: z.number().describe("Score of the host. Higher is better.").optional(),
  reason: z.string().max(1024).describe("Human-readable reason why this host was chosen.").optional(),
});

const missSchema = z.object({
  host: hostName("Name of the candidate host."),
  reason: z.string().max(63).describe("Reason code for not choosing the host."),
  message: z.string().max(1024).describe("Human-readable reason, with numbers.").optional(),
  shortBytes: bytes("Missing memory in bytes, if that was the reason.").optional(),
  hint: z.string().max(1024).describe("Settings with which the replica would fit on this host.").optional(),
});

const preemptedSchema = z.object({
  slot: z.int32().min(0).describe("Ordinal of the replica within its service."),
  by: z
    .string()
    .max(317)
    .describe("InferenceService that preempted the replica, in the form namespace/name."),
  host: hostName("Host that the replica ran on."),
});

const servicePlacementSchema = z.object({
  chosen: z
    .array(chosenSchema)
    .max(200)
    .meta({
      description: "Chosen hosts, one entry per replica.",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["replica"],
    })
    .optional(),
  misses: z
    .array(missSchema)
    .max(10)
    .meta({
      description: "Hosts that come closest to fitting, at most ten, if not all replicas could be placed.",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["host"],
    })
    .optional(),
  preempted: z
    .array(preemptedSchema)
    .max(100)
    .meta({
      description:
        "Replicas that were preempted by a service of higher priority and are queued for another host.",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["slot"],
    })
    .optional(),
  reasons: z.record(z.string(), z.int32()).describe("Number of hosts rejected, by reason.").optional(),
});

const claimedNameSchema = z.object({
  name: nonEmpty(253).describe("Model name."),
  since: timestamp("Time since which the service claims the name."),
});

export const inferenceServiceStatusSchema = z.object({
  phase: z
    .enum(SERVICE_PHASES)
    .describe(
      "Phase of the service. Ready: all desired replicas are ready. Degraded: something needs attention; status.ready shows how many replicas still serve. Idle: the replicas are unloaded until the next request.",
    )
    .optional(),
  ...summaryFields,
  backendRuntime: z
    .object({
      name: z.string().max(253).describe("Name of the BackendRuntime."),
      revision: z.string().max(64).describe("Revision of its content that the service uses."),
    })
    .describe("BackendRuntime in use. Absent without spec.backendRuntime.")
    .optional(),
  mode: modeSchema.describe("API that the service serves.").optional(),
  on: z
    .string()
    .max(32)
    .describe(
      "Platform of the replicas: Hosts, Pods, or Hosts+Pods. Without replicas, the platform that placement.on selects.",
    )
    .optional(),
  runtime: runtimeSchema.describe("Runtime in use: chosen automatically, or spec.runtime.").optional(),
  inheritedSettings: passThrough(
    "Settings of the service that arguments of its BackendRuntime or of its flavor determine, by their paths below spec, for example contextSize. A setting in spec counts instead.",
  ).optional(),
  model: z
    .object({
      name: z.string().max(253).describe("Name of the Model.").optional(),
      source: z.string().max(2048).describe("Source of the Model.").optional(),
      quantization: z.string().max(64).describe("Quantization of the Model.").optional(),
      sizeBytes: bytes("Size of the Model in bytes.").optional(),
      ...modelOrigin,
    })
    .describe("Model that is served.")
    .optional(),
  performance: totalPerformanceSchema
    .describe(
      "Live performance of all ready replicas together: the sum of speeds and requests, and the mean time to the first token. Written at most every 30 seconds and only on change.",
    )
    .optional(),
  currentRevision: z
    .string()
    .max(63)
    .describe("Revision that serves. During a rollout, the revision that is being replaced.")
    .optional(),
  updateRevision: z
    .string()
    .max(63)
    .describe("Target revision of the rollout. Equal to currentRevision if no rollout is in progress.")
    .optional(),
  replicas: count("Number of existing replicas, for the scale subresource."),
  readyReplicas: count("Number of ready replicas: phase Ready on a reachable host."),
  updatedReplicas: count("Number of replicas of updateRevision, ready or not."),
  desiredReplicas: count("Number of desired replicas; 0 while suspended."),
  ready: z.string().max(16).describe("Ready and desired replicas as one string, for example 1/2.").optional(),
  selector: z
    .string()
    .max(1024)
    .describe("Label selector of the replicas, for the scale subresource.")
    .optional(),
  endpoint: z.string().max(2048).describe("URL of the service inside the cluster.").optional(),
  gateway: z
    .object({
      routeReady: z
        .boolean()
        .describe("True if the Gateway has accepted the route of the service.")
        .optional(),
      modelName: z.string().max(253).describe("Model name that clients use on the Gateway.").optional(),
    })
    .describe("Route on a Gateway of Envoy AI Gateway. Absent without one.")
    .optional(),
  modelNames: z
    .array(claimedNameSchema)
    // Those of endpoint.modelNames, endpoint.gateway.modelName, the service itself and its adapters.
    .max(MODEL_NAMES_MAX + 2 + LORA_ADAPTERS_MAX)
    .meta({
      description:
        "Model names that the service claims beside NAMESPACE/NAME. On gateways a name belongs to the service with the earliest claim. Names that belong to another namespace are missing.",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["name"],
    })
    .optional(),
  placement: servicePlacementSchema
    .describe("Scheduling result: the chosen hosts, and why others were rejected.")
    .optional(),
  flavor: flavorStatusSchema
    .describe(
      "Flavor of the Model that the replicas run on, and why preferred ones are not used. Absent if the Model has no flavors.",
    )
    .optional(),
  idle: idleStatusSchema
    .describe(
      "Idle state of the replicas. Absent without spec.idle, and while the desired number of replicas is 0.",
    )
    .optional(),
  queuePosition: count(
    "Position in the scheduling queue; 1 is next. 0 or absent if the service is not queued.",
  ),
  waitingFor: z.string().max(1024).describe("Missing resource, for example memory: 12.3 GiB.").optional(),
  effectivePriority: z
    .int32()
    .describe("Current priority as a number. Higher priorities are scheduled first.")
    .optional(),
  conditions: conditionsSchema.optional(),
});

export type InferenceServiceStatus = z.output<typeof inferenceServiceStatusSchema>;
export type ServicePlacement = z.output<typeof servicePlacementSchema>;
