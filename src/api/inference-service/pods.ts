/** Fields of services that run as pods: their containers and their scheduling. On hosts SpecHonored names the ones that are set. */
import { z } from "zod";
import {
  ANNOTATION_LIMITS,
  LABEL_LIMITS,
  passThrough,
  passThroughList,
  stringMap,
  tolerationsSchema,
} from "../fields/kubernetes.ts";
import { objectName, totalLength } from "../fields/shared.ts";
import { autoscalingSchema, modelCacheSchema, resourcesSchema } from "./resources.ts";
import { disruptionSchema, rolloutPolicySchema } from "./rollout.ts";
import {
  personaPlexConfigSchema,
  sglangConfigSchema,
  tgiConfigSchema,
  vllmConfigSchema,
} from "./runtime-configs.ts";

const inPods = (description: string) => `${description} Pods only.`;

/** Every watcher of services keeps them in memory. */
const ARGUMENTS_LENGTH_MAX = 32_768;

const argumentList = (field: string, description: string) =>
  z
    .array(z.string().max(4096))
    .max(256)
    .meta({ description, "x-kubernetes-list-type": "atomic", ...totalLength(ARGUMENTS_LENGTH_MAX, field) })
    .optional();

const probeOverridesSchema = z.object({
  startup: passThrough(
    "Startup probe (a Kubernetes Probe). On hosts periodSeconds × failureThreshold bounds the start, up to 86400 s; where one of them is set, the other is 10 or 3, as for a kubelet. Absent: the time that the weights allow.",
  ).optional(),
  liveness: passThrough(
    "Liveness probe. On hosts timeoutSeconds (5, at most 600) and failureThreshold (3, at most 100) apply to health probes; with runtime generic also httpGet.path, exec.command or tcpSocket, always on the port that the program was given. Absent there: a TCP connection.",
  ).optional(),
  readiness: passThrough(
    "Readiness probe. On hosts only with runtime generic: httpGet.path, exec.command or tcpSocket must succeed once before clients are sent to it. Absent there: the liveness probe.",
  ).optional(),
});

export const podFields = {
  image: z
    .string()
    .min(1)
    .max(1024)
    .describe(
      inPods(
        "Container image of the engine, with a tag or a digest: without one, nodes would run different versions. Absent: the runtime's own for the accelerator, pinned by version.",
      ),
    )
    .optional(),
  command: argumentList(
    "command",
    "Program and first arguments of runtime generic on hosts: an absolute path that the host allows (generic.roots). Placeholders: {{model}} {{port}} {{address}} {{contextSize}} {{slots}}. In pods the command of the container.",
  ),
  args: argumentList(
    "args",
    "Arguments after those of command, with the same placeholders. In pods the arguments of the container.",
  ),
  env: passThroughList(
    "Environment (Kubernetes EnvVar) of runtime generic on hosts: name and value, with the same placeholders; no valueFrom. In pods the environment of the container, valueFrom included.",
  ).optional(),
  resources: resourcesSchema
    .describe(
      "CPU, memory and GPUs of each pod. With runtime generic on hosts, memory is the memory claim; absent, it is the size of the weights plus a fifth and 256 MiB.",
    )
    .optional(),
  nodeSelector: stringMap("nodeSelector", LABEL_LIMITS, inPods("Labels that a node must have.")).optional(),
  tolerations: tolerationsSchema(inPods("Taints that the pods tolerate.")).optional(),
  affinity: passThrough(inPods("Affinity of the pods (a Kubernetes Affinity).")).optional(),
  topologySpreadConstraints: passThroughList(inPods("How pods spread over nodes and zones.")).optional(),
  podLabels: stringMap("podLabels", LABEL_LIMITS, inPods("Further labels of the pods.")).optional(),
  podAnnotations: stringMap(
    "podAnnotations",
    ANNOTATION_LIMITS,
    inPods("Further annotations of the pods."),
  ).optional(),
  runtimeClassName: z
    .string()
    .min(1)
    .max(253)
    .describe(inPods("RuntimeClass of the pods, for example nvidia."))
    .optional(),
  priorityClassName: z
    .string()
    .min(1)
    .max(253)
    .describe(inPods("PriorityClass of the pods; overrides priority there."))
    .optional(),
  imagePullSecrets: z
    .array(z.object({ name: objectName("Name of the Secret.") }))
    .max(32)
    .meta({
      description: inPods("Secrets for pulling the image."),
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["name"],
    })
    .optional(),
  podSecurityContext: passThrough(
    inPods("Security settings of the pods (a Kubernetes PodSecurityContext)."),
  ).optional(),
  securityContext: passThrough(
    inPods("Security settings of the container (a Kubernetes SecurityContext)."),
  ).optional(),
  extraVolumes: passThroughList(inPods("Further volumes of the pods (Kubernetes Volume).")).optional(),
  extraVolumeMounts: passThroughList(
    inPods("Where the container mounts them (Kubernetes VolumeMount)."),
  ).optional(),
  bindAddress: z
    .string()
    .min(1)
    .max(64)
    .describe(inPods('Address the engine listens on inside its pod. Absent: all, "::".'))
    .optional(),
  containerPort: z
    .int32()
    .min(1)
    .max(65535)
    .describe(inPods("Port the engine listens on inside its pod. Absent: the runtime's own."))
    .optional(),
  probeOverrides: probeOverridesSchema
    .describe("Probes that replace the runtime's defaults. On hosts only the settings named in each apply.")
    .optional(),
  skipModelInit: z
    .boolean()
    .describe(inPods("True: pods start without fetching the model first; the engine fetches it."))
    .optional(),
  modelCache: modelCacheSchema.describe(inPods("Storage of the weights for pods.")).optional(),
  autoscaling: autoscalingSchema
    .describe(inPods("Scales replicas by load; the autoscaler then owns spec.replicas."))
    .optional(),
  disruption: disruptionSchema.describe(inPods("Protection against voluntary disruption.")).optional(),
  rolloutPolicy: rolloutPolicySchema.describe(inPods("How a rollout waits for idle pods.")).optional(),
  maxPodLifetimeSeconds: z
    .int32()
    .min(1)
    .describe(
      inPods(
        "Age in seconds at which pods are replaced, one at a time: the oldest decides for all of the service. Absent: never.",
      ),
    )
    .optional(),
  maxPodLifetimeIdleTimeoutSeconds: z
    .int32()
    .min(0)
    .describe(inPods("Seconds to wait until pods of that age are idle. Absent: as rolloutPolicy says."))
    .optional(),
  vllmConfig: vllmConfigSchema.describe(inPods("Settings of runtime vllm.")).optional(),
  tgiConfig: tgiConfigSchema.describe(inPods("Settings of runtime tgi.")).optional(),
  sglangConfig: sglangConfigSchema.describe(inPods("Settings of runtime sglang.")).optional(),
  personaPlexConfig: personaPlexConfigSchema.describe(inPods("Settings of runtime personaplex.")).optional(),
} as const;
