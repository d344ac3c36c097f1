/** InferenceService.spec: what a user asks for. */
import { z } from "zod";
import { engineFields, modeSchema, ropeScalingSchema } from "../engine-settings.ts";
import { inFlightProbeSchema } from "../fields/program.ts";
import { runtimeSchema } from "../fields/runtime-fields.ts";
import { RUNTIMES_BY_FORMAT } from "../fields/runtimes.ts";
import { objectName, prioritySchema } from "../fields/shared.ts";
import { HOST_LOST_SECONDS_DEFAULT, LORA_ADAPTERS_MAX, loraScaleSchema } from "../inference-replica.ts";
import { authSchema, endpointSchema, sloSchema } from "./endpoint.ts";
import { podFields } from "./pods.ts";
import { placementSchema, rolloutSchema } from "./rollout.ts";
import { ropeScalingRules, serviceRules } from "./rules.ts";
import { speculativeDecodingSchema } from "./speculative.ts";

const REPLICAS_MAX = 100;

export const inferenceServiceSpecSchema = z
  .object({
    modelRef: objectName("The Model to serve, in the same namespace."),
    modelRevision: z
      .string()
      .min(1)
      .max(128)
      .describe(
        "Serve this revision of the Model's content instead of the Model's current one: the model.revision of a kept revision of the service, as `metalbridge rollout undo` sets it. Absent: the current one. Not for pods.",
      )
      .optional(),
    runtime: runtimeSchema
      .describe(
        `Engine that runs the model. Absent: chosen by the model's format and by what hosts have (${RUNTIMES_BY_FORMAT}), once for each revision.`,
      )
      .optional(),
    mode: modeSchema
      .describe("What the service answers: chat (and completions), embedding or rerank. Absent: chat.")
      .optional(),
    replicas: z
      .int32()
      .min(0)
      .max(REPLICAS_MAX)
      .describe(
        "Desired number of replicas; 0 stops all and keeps the service. On Macs each replica is one process on one host.",
      )
      .default(1),
    suspend: z
      .boolean()
      .describe("True: all replicas are stopped, and spec.replicas keeps its value.")
      .default(false),
    priority: prioritySchema
      .describe(
        "Priority in the scheduling queue, and under memory pressure: services of lower priority are evicted first.",
      )
      .default("normal"),
    evictionProtection: z
      .boolean()
      .describe("True: engines of this service are never evicted under memory pressure.")
      .default(false),
    hostLostSeconds: z
      .int32()
      .min(1)
      .max(604800)
      .describe(
        "Seconds without a Lease renewal after which a host is marked lost and its replicas are rescheduled. Never before its Lease of 40 s expires.",
      )
      .default(HOST_LOST_SECONDS_DEFAULT),
    placement: placementSchema.describe("Constraints on the hosts of replicas.").prefault({}),
    rollout: rolloutSchema.describe("How a rollout replaces running replicas.").prefault({}),
    revisionHistoryLimit: z
      .int32()
      .min(0)
      .max(1000)
      .describe("LLMKube's name for rollout.revisionHistoryLimit; set only one of the two.")
      .optional(),
    endpoint: endpointSchema.describe("The cluster Service for clients.").prefault({}),
    auth: authSchema.describe("API key that clients must send. Absent: none required.").optional(),
    slo: sloSchema
      .describe("Service level objective, from which alerting rules are generated. Not in this version.")
      .optional(),
    ...engineFields,
    ropeScaling: ropeScalingSchema
      .meta({ "x-kubernetes-validations": ropeScalingRules })
      .describe(
        "RoPE scaling: extends the model's context beyond its trained length. Absent: as in the model file.",
      )
      .optional(),
    speculativeDecoding: speculativeDecodingSchema
      .describe(
        "Speculative decoding: drafts tokens ahead and verifies them in one step, for higher tokens per second.",
      )
      .optional(),
    loraAdapters: z
      .array(
        z.object({
          modelRef: objectName("Model whose weights are the adapter, in the same namespace."),
          scale: loraScaleSchema.default(1),
        }),
      )
      .max(LORA_ADAPTERS_MAX)
      .meta({
        description: "LoRA adapters to load with the model, all of them applied to every request.",
        "x-kubernetes-list-type": "atomic",
      })
      .optional(),
    tty: z
      .boolean()
      .describe(
        "Run the program of runtime generic in a terminal on its host: `metalbridge attach` connects to it. For programs that ask for one, or that buffer their output without one.",
      )
      .optional(),
    inFlightProbe: inFlightProbeSchema
      .describe(
        "Where a program of runtime generic reports its requests in flight, so that a drain ends once there are none. Absent: unknown, and a drain takes all of drainSeconds.",
      )
      .optional(),
    ...podFields,
  })
  .meta({ "x-kubernetes-validations": serviceRules });

export type InferenceServiceSpec = z.output<typeof inferenceServiceSpecSchema>;
