/** Fields of services that run as pods: containers, model cache and scheduling. On hosts, the condition SpecHonored names those that are set. */
import { z } from "zod";
import {
  ANNOTATION_LIMITS,
  LABEL_LIMITS,
  passThrough,
  passThroughList,
  stringMap,
  tolerationsSchema,
} from "../fields/kubernetes.ts";
import { quantity } from "../fields/quantity.ts";
import { resourcesSchema } from "../fields/resources.ts";
import { int32, nonEmpty, objectName, totalLength } from "../fields/shared.ts";
import { groupSchema } from "./group.ts";
import { disruptionSchema, rolloutPolicySchema } from "./rollout.ts";
import {
  personaPlexConfigSchema,
  sglangConfigSchema,
  tgiConfigSchema,
  vllmConfigSchema,
} from "./runtime-configs.ts";

/** Model cache of services in pods. */
const modelCacheSchema = z
  .object({
    persistence: z
      .enum(["Cached", "Ephemeral"])
      .describe("Cached stores the weights on a volume, Ephemeral in the pod.")
      .optional(),
    claimName: nonEmpty(253)
      .describe(
        "Name of the PersistentVolumeClaim with the weights. Defaults to the model cache of the namespace.",
      )
      .optional(),
  })
  .meta({
    "x-kubernetes-validations": [
      {
        rule: "!(has(self.claimName) && has(self.persistence) && self.persistence == 'Ephemeral')",
        message: "modelCache.claimName cannot be used with modelCache.persistence Ephemeral",
      },
    ],
  });

const inPods = (description: string) => `${description} Pods only.`;

/** Limited because every watcher of services caches them in memory. */
const ARGUMENTS_LENGTH_MAX = 32_768;

const argumentList = (field: string, description: string) =>
  z
    .array(z.string().max(4096))
    .max(256)
    .meta({ description, "x-kubernetes-list-type": "atomic", ...totalLength(ARGUMENTS_LENGTH_MAX, field) })
    .optional();

const probeOverridesSchema = z.object({
  startup: passThrough(
    "Startup probe (a Kubernetes Probe). On hosts, periodSeconds × failureThreshold is the startup timeout, up to 86400 seconds; if only one of them is set, the other defaults to 10 or 3, as in Kubernetes. If both are absent, the timeout scales with the size of the weights.",
  ).optional(),
  liveness: passThrough(
    "Liveness probe (a Kubernetes Probe). On hosts, timeoutSeconds (default 5, maximum 600) and failureThreshold (default 3, maximum 100) apply to health probes. Runtime generic also uses httpGet.path, exec.command or tcpSocket, always on the port of the program, and defaults to a TCP connection.",
  ).optional(),
  readiness: passThrough(
    "Readiness probe (a Kubernetes Probe). On hosts it applies to runtime generic only: httpGet.path, exec.command or tcpSocket must succeed once before the program receives requests. Defaults to the liveness probe there.",
  ).optional(),
});

export const podFields = {
  image: nonEmpty(1024)
    .describe(
      inPods(
        "Container image of the engine, with a tag or a digest. Defaults to a pinned version of the runtime's image for the accelerator.",
      ),
    )
    .optional(),
  command: argumentList(
    "command",
    "On hosts, program and first arguments of runtime generic: an absolute path that the host allows (generic.roots). Placeholders: {{model}} {{port}} {{address}} {{contextSize}} {{slots}}. In pods, command of the container.",
  ),
  args: argumentList(
    "args",
    "Additional arguments after those of command, with the same placeholders. In pods, arguments of the container.",
  ),
  env: passThroughList(
    "Environment variables (Kubernetes EnvVar). On hosts they apply to runtime generic, with the same placeholders and without valueFrom. In pods they are set in the container.",
  ).optional(),
  resources: resourcesSchema
    .describe(
      "CPU, memory and GPUs of each pod. With runtime generic on hosts, memory is the memory claim, which defaults to 120 % of the size of the weights plus 256 MiB.",
    )
    .optional(),
  nodeSelector: stringMap("nodeSelector", LABEL_LIMITS, inPods("Labels that a node must have.")).optional(),
  tolerations: tolerationsSchema(inPods("Taints that the pods tolerate.")).optional(),
  affinity: passThrough(inPods("Affinity of the pods (a Kubernetes Affinity).")).optional(),
  topologySpreadConstraints: passThroughList(
    inPods("Topology spread constraints of the pods (Kubernetes TopologySpreadConstraint)."),
  ).optional(),
  podLabels: stringMap("podLabels", LABEL_LIMITS, inPods("Additional labels of the pods.")).optional(),
  podAnnotations: stringMap(
    "podAnnotations",
    ANNOTATION_LIMITS,
    inPods("Additional annotations of the pods."),
  ).optional(),
  runtimeClassName: nonEmpty(253)
    .describe(inPods("RuntimeClass of the pods, for example nvidia."))
    .optional(),
  priorityClassName: nonEmpty(253)
    .describe(inPods("PriorityClass of the pods. Overrides priority."))
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
    inPods("Security context of the pods (a Kubernetes PodSecurityContext)."),
  ).optional(),
  securityContext: passThrough(
    inPods("Security context of the container (a Kubernetes SecurityContext)."),
  ).optional(),
  extraVolumes: passThroughList(inPods("Additional volumes of the pods (Kubernetes Volume).")).optional(),
  extraVolumeMounts: passThroughList(
    inPods("Additional volume mounts of the container (Kubernetes VolumeMount)."),
  ).optional(),
  bindAddress: nonEmpty(64)
    .describe(inPods("Address that the engine listens on inside its pod. Defaults to all addresses."))
    .optional(),
  lifecycle: passThrough(
    inPods(
      "Lifecycle hooks of the container (a Kubernetes Lifecycle). A preStop hook replaces the one that waits for requests in flight.",
    ),
  ).optional(),
  sharedMemory: quantity(
    inPods(
      "Size of /dev/shm, for example 2Gi. Defaults to 64 MiB, or to what the runtime needs with more than one GPU.",
    ),
  ).optional(),
  containerPort: int32(1, 65535)
    .describe(inPods("Port that the engine listens on inside its pod. Defaults to the port of the runtime."))
    .optional(),
  probeOverrides: probeOverridesSchema
    .describe(
      "Probes that override the defaults of the runtime. On hosts, only the settings in the description of each probe apply.",
    )
    .optional(),
  skipModelInit: z
    .boolean()
    .describe(inPods("If true, pods start without downloading the model first, and the engine downloads it."))
    .optional(),
  modelCache: modelCacheSchema.describe(inPods("Storage of the weights.")).optional(),
  group: groupSchema
    .describe(
      inPods(
        "Serves each copy of the model by a group of pods on several nodes, of which the leader answers requests. replicas is then the number of groups. Needs the kinds of LeaderWorkerSet in the cluster.",
      ),
    )
    .optional(),
  disruption: disruptionSchema.describe(inPods("Protection against voluntary disruption.")).optional(),
  rolloutPolicy: rolloutPolicySchema.describe(inPods("Wait for idle pods during a rollout.")).optional(),
  maxPodLifetimeSeconds: z
    .int32()
    .min(1)
    .describe(
      inPods(
        "Age in seconds at which pods are replaced, one at a time. All pods of the service are replaced when the oldest reaches it. If absent, pods are not replaced because of their age.",
      ),
    )
    .optional(),
  maxPodLifetimeIdleTimeoutSeconds: z
    .int32()
    .min(0)
    .describe(
      inPods(
        "Maximum time in seconds to wait until pods of that age are idle. Defaults to the settings in rolloutPolicy.",
      ),
    )
    .optional(),
  vllmConfig: vllmConfigSchema.describe(inPods("Settings of runtime vllm.")).optional(),
  tgiConfig: tgiConfigSchema.describe(inPods("Settings of runtime tgi.")).optional(),
  sglangConfig: sglangConfigSchema.describe(inPods("Settings of runtime sglang.")).optional(),
  personaPlexConfig: personaPlexConfigSchema.describe(inPods("Settings of runtime personaplex.")).optional(),
} as const;
