/** BackendRuntime: an inference engine that users define, for pods and for hosts. */
import { z } from "zod";
import { conditionsSchema } from "./conditions.ts";
import { modeSchema } from "./engine-settings.ts";
import { acceleratorSchema } from "./fields/hardware.ts";
import { passThrough } from "./fields/kubernetes.ts";
import { KNOWN_PLACEHOLDERS, onlyKnownPlaceholders } from "./fields/placeholders.ts";
import { quantity } from "./fields/quantity.ts";
import { resourcesSchema } from "./fields/resources.ts";
import { runtimeSchema } from "./fields/runtime-fields.ts";
import { behaviorSchema, metricsSchema } from "./fields/scaling-metrics.ts";
import { formatSchema, int32, nonEmpty, summaryFields } from "./fields/shared.ts";
import { objectFields } from "./metadata.ts";

const PLACEHOLDER_MESSAGE = `holds an unknown or empty placeholder; known: ${KNOWN_PLACEHOLDERS} and their aliases such as {{ .ModelPath }}`;

const texts = (field: string, description: string, max: number) =>
  z
    .array(z.string().max(1024))
    .max(max)
    .meta({
      description,
      "x-kubernetes-list-type": "atomic",
      "x-kubernetes-validations": [
        {
          rule: `self.all(text, ${onlyKnownPlaceholders("text")})`,
          message: `${field} ${PLACEHOLDER_MESSAGE}`,
        },
      ],
    })
    .optional();

const variables = (field: string, description: string) =>
  z
    .array(
      z.object({
        name: nonEmpty(256)
          .regex(/^[A-Za-z_][A-Za-z0-9_]*$/)
          .describe("Name of the variable."),
        value: z
          .string()
          .max(1024)
          .describe("Value of the variable, with the same placeholders. Defaults to an empty string.")
          .optional(),
      }),
    )
    .max(32)
    .meta({
      description,
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["name"],
      "x-kubernetes-validations": [
        {
          rule: `self.all(one, !has(one.value) || ${onlyKnownPlaceholders("one.value")})`,
          message: `${field} ${PLACEHOLDER_MESSAGE}`,
        },
      ],
    })
    .optional();

const sharedMemory = quantity(
  "Size of /dev/shm, for example 2Gi. If absent, it is 64 MiB, or half of the memory request with more than one GPU.",
).optional();
const resources = resourcesSchema.describe("CPU, memory and GPUs of each pod.").optional();

/** Names of the configurations that services use if they name none. */
export const CONFIG_DEFAULT = "default";
export const CONFIG_SPECULATIVE = "speculative-decoding";

const scaleTriggerSchema = z.object({
  hpa: z
    .object({
      metrics: metricsSchema("Metrics for engine HPA."),
      behavior: behaviorSchema("Scaling behavior, with either engine."),
    })
    .meta({
      "x-kubernetes-validations": [
        {
          rule: "has(self.metrics) || has(self.behavior)",
          message: "scaleTrigger.hpa needs metrics, behavior or both",
        },
      ],
    })
    .describe("Metrics and behavior as in spec.autoscaling of a service."),
});

const recommendedConfigSchema = z.object({
  name: nonEmpty(63)
    .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/)
    .describe(
      "Name of the configuration. speculative-decoding is used by services with a draft model, default by all others that name none.",
    ),
  args: texts("args", "Arguments after those of the runtime, with the same placeholders.", 32),
  env: variables("env", "Environment variables that override those of the runtime."),
  resources,
  sharedMemory,
  scaleTrigger: scaleTriggerSchema
    .describe(
      "Autoscaling of services whose spec.autoscaling has no metrics, triggers or targetRequests. Metrics of pods do not apply to services on hosts.",
    )
    .optional(),
});

const gaugesSchema = z.object({
  path: z
    .string()
    .max(1024)
    .regex(/^\/\S*$/)
    .describe("HTTP path of the metrics, in the Prometheus text format.")
    .default("/metrics"),
  running: gaugeNames("Gauges whose sum is the number of running requests.").min(1),
  queued: gaugeNames("Gauges whose sum is the number of queued requests.").default([]),
});

function gaugeNames(description: string) {
  return z
    .array(
      z
        .string()
        .max(256)
        .regex(/^[a-zA-Z_:][a-zA-Z0-9_:]*$/),
    )
    .max(8)
    .meta({ description, "x-kubernetes-list-type": "atomic" });
}

const probesSchema = z.object({
  startup: passThrough("Startup probe (a Kubernetes Probe).").optional(),
  liveness: passThrough("Liveness probe (a Kubernetes Probe).").optional(),
  readiness: passThrough("Readiness probe (a Kubernetes Probe).").optional(),
});

const hostMemorySchema = z
  .object({
    fixed: quantity("Memory claim, for example 12Gi.").optional(),
    weightsPercent: int32(0, 1000)
      .describe("Percentage of the size of the weights, for example 110.")
      .optional(),
    extra: quantity("Memory in addition to weightsPercent, for example 2Gi.").optional(),
  })
  .meta({
    "x-kubernetes-validations": [
      {
        rule: "has(self.fixed) != has(self.weightsPercent)",
        message: "host.memory needs exactly one of fixed and weightsPercent",
      },
      {
        rule: "!has(self.extra) || has(self.weightsPercent)",
        message: "host.memory.extra needs weightsPercent",
      },
    ],
  });

const reachesPort = (text: string) => `${text}.matches('[{][{]( *[.]Port *|port)[}][}]')`;

const hostSchema = z
  .object({
    command: texts(
      "host.command",
      "Program and first arguments. The program is an absolute path, or a name for which each host's configuration has the path. Same placeholders as args.",
      32,
    )
      .unwrap()
      .min(1),
    args: texts("host.args", "Additional arguments after those of command.", 64),
    env: variables("host.env", "Environment variables of the program."),
    install: z
      .string()
      .max(1024)
      .describe("Command that installs the program, for messages. Metalbridge never runs it.")
      .optional(),
    memory: hostMemorySchema
      .describe("Memory claim of a replica. Defaults to 120 % of the size of the weights plus 256 MiB.")
      .optional(),
  })
  .meta({
    "x-kubernetes-validations": [
      {
        rule: "self.command[0].matches('^(/[^{}]*|[A-Za-z0-9][A-Za-z0-9._-]*)$')",
        message:
          "host.command must begin with an absolute path or the name of a program, without placeholders",
      },
      {
        rule: `self.command.exists(text, ${reachesPort("text")}) || (has(self.args) && self.args.exists(text, ${reachesPort("text")})) || (has(self.env) && self.env.exists(one, has(one.value) && ${reachesPort("one.value")}))`,
        message:
          "none of host.command, host.args and host.env holds {{port}}, so clients could not reach the program",
      },
    ],
  });

const backendRuntimeSpecSchema = z
  .object({
    engine: runtimeSchema
      .describe(
        "Runtime that this object configures. With generic, command and args are the whole command; with any other, args are added to the arguments of the runtime. Defaults to generic.",
      )
      .default("generic"),
    image: nonEmpty(1024)
      .describe(
        "Container image. Without a tag or a digest, version is its tag. If absent, the engine does not run in pods, or has the image of its runtime.",
      )
      .optional(),
    version: nonEmpty(128)
      .regex(/^[A-Za-z0-9_][A-Za-z0-9_.-]*$/)
      .describe("Tag of the image.")
      .optional(),
    formats: z
      .array(formatSchema)
      .max(6)
      .meta({
        description: "Formats of weights that the engine loads. Defaults to all formats of the runtime.",
        "x-kubernetes-list-type": "set",
      })
      .optional(),
    modes: z
      .array(modeSchema)
      .max(3)
      .meta({
        description: "Modes that the engine serves. Defaults to all modes of the runtime.",
        "x-kubernetes-list-type": "set",
      })
      .optional(),
    accelerators: z
      .array(acceleratorSchema)
      .max(6)
      .meta({
        description:
          "Accelerators that the engine runs on. Without cpu, it needs a GPU. Defaults to all accelerators of the runtime.",
        "x-kubernetes-list-type": "set",
      })
      .optional(),
    apiPaths: z
      .array(
        z
          .string()
          .max(256)
          .regex(/^\/\S*$/),
      )
      .max(32)
      .meta({
        description: "HTTP paths of the APIs that the engine answers, for example /v1/chat/completions.",
        "x-kubernetes-list-type": "set",
      })
      .optional(),
    command: texts("command", "Command of the container. Defaults to the entrypoint of the image.", 32),
    args: texts(
      "args",
      `Arguments of the container. Placeholders: ${KNOWN_PLACEHOLDERS}, and aliases such as {{ .ModelPath }}.`,
      64,
    ),
    env: variables("env", "Environment variables of the container, in this order."),
    port: int32(1, 65535)
      .describe("Port that the engine listens on in its pod. Defaults to that of the runtime.")
      .optional(),
    probes: probesSchema
      .describe("Probes of the container. On hosts, the handlers of liveness and readiness apply.")
      .optional(),
    lifecycle: passThrough(
      "Lifecycle hooks of the container (Kubernetes Lifecycle). A preStop hook replaces the drain by gauges.",
    ).optional(),
    resources,
    sharedMemory,
    gauges: gaugesSchema
      .describe("Gauges of requests, which end a drain early and are the default metric of autoscaling.")
      .optional(),
    recommendedConfigs: z
      .array(recommendedConfigSchema)
      .max(8)
      .meta({
        description: "Named configurations, of which a service uses one.",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
      })
      .optional(),
    host: hostSchema
      .describe("The engine as a native program on hosts. If absent, it runs in pods only.")
      .optional(),
  })
  .meta({
    "x-kubernetes-validations": [
      {
        rule: "self.engine == 'generic' || (!has(self.command) && !has(self.host))",
        message: "command and host go only with engine generic: other runtimes have their own command",
      },
      {
        rule: "self.engine != 'generic' || has(self.image) || has(self.host)",
        message: "engine generic needs image, host or both",
      },
      {
        rule: "!has(self.version) || (has(self.image) && !self.image.matches('(@|:[^/]+$)'))",
        message: "version needs an image without a tag and without a digest",
      },
    ],
  });

const backendRuntimeStatusSchema = z.object({
  ...summaryFields,
  services: int32(0, 1_000_000).describe("Number of services that use this object.").optional(),
  updatedServices: int32(0, 1_000_000)
    .describe(
      "Number of services that use its current content. Others use earlier content until their spec changes or `metalbridge rollout restart`.",
    )
    .optional(),
  revision: z.string().max(64).describe("Digest of the current content.").optional(),
  conditions: conditionsSchema.optional(),
});

export const backendRuntimeSchema = z.object({
  ...objectFields,
  spec: backendRuntimeSpecSchema.describe("Definition of the engine."),
  status: backendRuntimeStatusSchema.describe("Status of the object, written by the controller.").optional(),
});

export type BackendRuntime = z.output<typeof backendRuntimeSchema>;
export type BackendRuntimeSpec = z.output<typeof backendRuntimeSpecSchema>;
