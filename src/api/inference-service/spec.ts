/** InferenceService.spec. */
import { z } from "zod";
import { engineFields, modeSchema, ropeScalingSchema } from "../engine-settings.ts";
import { inFlightProbeSchema } from "../fields/program.ts";
import { backendReferenceSchema, runtimeSchema } from "../fields/runtime-fields.ts";
import { RUNTIMES_BY_FORMAT } from "../fields/runtimes.ts";
import { int32, nonEmpty, objectName, prioritySchema } from "../fields/shared.ts";
import { flavorNamesSchema } from "../flavors.ts";
import { HOST_LOST_SECONDS_DEFAULT, LORA_ADAPTERS_MAX, loraScaleSchema } from "../inference-replica.ts";
import { autoscalingSchema } from "./autoscaling.ts";
import { authSchema, endpointSchema, sloSchema } from "./endpoint.ts";
import { idleSchema } from "./idle.ts";
import { modelRefsSchema } from "./model-refs.ts";
import { podFields } from "./pods.ts";
import { placementSchema, rolloutSchema } from "./rollout.ts";
import { ropeScalingRules, serviceRules } from "./rules.ts";
import { speculativeDecodingSchema } from "./speculative.ts";

const REPLICAS_MAX = 100;

export const inferenceServiceSpecSchema = z
  .object({
    modelRef: objectName(
      "Name of the Model to serve, in the same namespace. Set either modelRef or modelRefs.",
    ).optional(),
    modelRefs: modelRefsSchema.optional(),
    modelRevision: nonEmpty(128)
      .describe(
        "Revision of the Model's content to serve: the model.revision of a stored revision of the service, as set by `metalbridge rollout undo`. Defaults to the current content. Ignored in pods.",
      )
      .optional(),
    runtime: runtimeSchema
      .describe(
        `Runtime that runs the model. If absent, it is chosen once per revision by the format of the model and by what hosts have installed (${RUNTIMES_BY_FORMAT}).`,
      )
      .optional(),
    backendRuntime: backendReferenceSchema
      .describe(
        "BackendRuntime that runs the model, instead of runtime. Its settings apply where the service has none of its own.",
      )
      .optional(),
    mode: modeSchema
      .describe("API that the service serves: chat (and completions), embedding or rerank. Defaults to chat.")
      .optional(),
    replicas: int32(0, REPLICAS_MAX)
      .describe(
        "Desired number of replicas. 0 stops all replicas and keeps the service. On hosts, each replica is one process on one host. Defaults to 1.",
      )
      .default(1),
    suspend: z
      .boolean()
      .describe("If true, all replicas are stopped, and spec.replicas keeps its value.")
      .default(false),
    priority: prioritySchema
      .describe(
        "Priority in the scheduling queue and under memory pressure, when services of lower priority are evicted first. Defaults to normal.",
      )
      .default("normal"),
    evictionProtection: z
      .boolean()
      .describe("If true, engines of this service are never evicted under memory pressure.")
      .default(false),
    hostLostSeconds: int32(1, 604800)
      .describe(
        "Time in seconds without a Lease renewal after which a host is marked lost and its replicas are rescheduled, but not before its Lease of 40 seconds expires. Defaults to 300.",
      )
      .default(HOST_LOST_SECONDS_DEFAULT),
    flavors: flavorNamesSchema.optional(),
    placement: placementSchema.describe("Placement of replicas.").prefault({}),
    rollout: rolloutSchema.describe("Rollout strategy.").prefault({}),
    revisionHistoryLimit: int32(0, 1000)
      .describe(
        "Same as rollout.revisionHistoryLimit, for compatibility with LLMKube. Set only one of the two.",
      )
      .optional(),
    endpoint: endpointSchema.describe("Cluster Service for clients.").prefault({}),
    auth: authSchema.describe("API key that clients must send. If absent, no key is required.").optional(),
    slo: sloSchema
      .describe(
        "Service level objective. Its alerts are a ServiceLevelObjective of Pyrra where that is installed, else a PrometheusRule, and count the requests through the gateway. The condition SLOReady reports it.",
      )
      .optional(),
    ...engineFields,
    ropeScaling: ropeScalingSchema
      .meta({ "x-kubernetes-validations": ropeScalingRules })
      .describe(
        "RoPE scaling, which extends the context beyond the length that the model was trained for. Defaults to the settings in the model file.",
      )
      .optional(),
    speculativeDecoding: speculativeDecodingSchema
      .describe(
        "Speculative decoding, which drafts tokens ahead and verifies them in one step to generate faster.",
      )
      .optional(),
    loraAdapters: z
      .array(
        z.object({
          modelRef: objectName("Name of the Model with the weights of the adapter, in the same namespace."),
          scale: loraScaleSchema.describe(`${loraScaleSchema.description} Defaults to 1.`).optional(),
        }),
      )
      .max(LORA_ADAPTERS_MAX)
      .meta({
        description:
          "LoRA adapters to load with the model. All of them are applied to every request. For adapters that clients choose by name, use role lora in modelRefs.",
        "x-kubernetes-list-type": "atomic",
      })
      .optional(),
    tty: z
      .boolean()
      .describe(
        "If true, the program of runtime generic runs in a terminal on its host, to which `metalbridge attach` connects. For programs that require a terminal, or that buffer their output without one.",
      )
      .optional(),
    inFlightProbe: inFlightProbeSchema
      .describe(
        "Gauges of requests in flight of a program of runtime generic, so that a drain ends as soon as there are none. If absent, a drain takes all of drainSeconds.",
      )
      .optional(),
    ...podFields,
    autoscaling: autoscalingSchema
      .describe(
        "Autoscaling of replicas, on hosts and in pods. The autoscaler then sets spec.replicas through the scale subresource, so leave spec.replicas out of the manifest.",
      )
      .optional(),
    idle: idleSchema
      .describe(
        "Unloads all replicas while the service has no requests. The next request through the gateway loads them again, on the same hosts if possible. If absent, replicas stay loaded.",
      )
      .optional(),
  })
  .meta({ "x-kubernetes-validations": serviceRules });

export type InferenceServiceSpec = z.output<typeof inferenceServiceSpecSchema>;
