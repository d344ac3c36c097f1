/** InferenceService.spec: what a user asks for. */
import { z } from "zod";
import { engineFields, modeSchema, ropeScalingSchema, runtimeSchema } from "../engine-settings.ts";
import { objectName, prioritySchema } from "../fields/shared.ts";
import { HOST_LOST_SECONDS_DEFAULT } from "../inference-replica.ts";
import { authSchema, endpointSchema, sloSchema } from "./endpoint.ts";
import { linuxFields } from "./linux.ts";
import { placementSchema, rolloutSchema } from "./rollout.ts";
import { ropeScalingRules, serviceRules } from "./rules.ts";
import { speculativeDecodingSchema } from "./speculative.ts";

const REPLICAS_MAX = 100;

export const inferenceServiceSpecSchema = z
  .object({
    modelRef: objectName("The Model to serve, in the same namespace."),
    runtime: runtimeSchema
      .describe(
        "Engine that runs the model. Absent: chosen by the model's format and accelerator (gguf: llamacpp, mlx: omlx, ollama: ollama).",
      )
      .optional(),
    mode: modeSchema
      .describe("What the service answers: chat (and completions), embedding or rerank. Absent: chat.")
      .optional(),
    replicas: z
      .int32()
      .min(0)
      .max(REPLICAS_MAX)
      .describe("Engines wanted; 0 stops all and keeps the service. On Macs each is one process on one host.")
      .default(1),
    suspend: z
      .boolean()
      .describe("True: everything is stopped, and replicas keeps its number for later.")
      .default(false),
    priority: prioritySchema
      .describe("Who goes first in the queue for capacity, and who is ended last under memory pressure.")
      .default("normal"),
    evictionProtection: z
      .boolean()
      .describe("True: memory pressure on a host never ends this service's engines.")
      .default(false),
    hostLostSeconds: z
      .int32()
      .min(1)
      .max(604800)
      .describe(
        "Seconds of silence after which a host counts as lost and its replicas are placed anew. Never before its Lease of 40 s is over.",
      )
      .default(HOST_LOST_SECONDS_DEFAULT),
    placement: placementSchema.describe("Which hosts replicas may go to.").prefault({}),
    rollout: rolloutSchema.describe("How a change replaces running replicas.").prefault({}),
    revisionHistoryLimit: z
      .int32()
      .min(0)
      .max(1000)
      .describe("LLMKube's place for rollout.revisionHistoryLimit; set only one of the two.")
      .optional(),
    endpoint: endpointSchema.describe("The cluster Service that clients use.").prefault({}),
    auth: authSchema.describe("API key that clients must send. Absent: none is asked for.").optional(),
    slo: sloSchema.describe("Service level objective, from which alerting rules are made.").optional(),
    ...engineFields,
    ropeScaling: ropeScalingSchema
      .meta({ "x-kubernetes-validations": ropeScalingRules })
      .describe(
        "Stretches the model's context beyond what it was trained for. Absent: as the model file says.",
      )
      .optional(),
    speculativeDecoding: speculativeDecodingSchema
      .describe("Guesses tokens ahead and checks them in one step, for faster answers.")
      .optional(),
    ...linuxFields,
  })
  .meta({ "x-kubernetes-validations": serviceRules });

export type InferenceServiceSpec = z.output<typeof inferenceServiceSpecSchema>;
