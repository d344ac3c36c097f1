/** Builds the pod template of a service: its metadata, and everything around the engine's container. Pure. */
import {
  ANNOTATION_IN_FLIGHT,
  ANNOTATION_RESTARTED_AT,
  ENGINE_CONTAINER,
  GATE_PLACEMENT,
  IN_FLIGHT_NEEDS_KEY,
} from "../../../src/api/group.ts";
import type { InferenceService, InferenceServiceSpec } from "../../../src/api/inference-service/index.ts";
import type { Model } from "../../../src/api/model.ts";
import { familyLabels, isOwnKey, MANAGED_BY, ownerLabels } from "../../../src/api/owned.ts";
import type { PodRuntime } from "../../../src/engines/contract/pod.ts";
import type { Container, PodSpec, PodTemplate } from "../../../src/kube/workload-objects.ts";
import { POD_USER, type PodFlavors, type PodsSettings, type Term } from "./contract.ts";
import { gaugesOf, graceSeconds } from "./drain.ts";
import type { GPURequest } from "./gpus.ts";
import { mountLabelOf, withMounts } from "./mount-affinity.ts";
import { priorityClassName } from "./priorities.ts";
import { queueAnnotations, queueLabels } from "./queue-labels.ts";
import type { Files } from "./volumes.ts";

/**
 * Groups that own the device files of AMD and Intel GPUs on nodes: video, and render by the numbers of Debian, Ubuntu and Red
 * Hat. NVIDIA's device files are accessible to all users.
 */
const DEVICE_GROUPS = [44, 104, 105, 109, 110, 991, 992, 993];

/** Maximum length of the restart annotation, which users may set to any text. */
const RESTARTED_AT_MAX = 64;

export interface PodTemplateInput {
  readonly service: InferenceService;
  readonly model: Model;
  readonly pod: PodRuntime;
  readonly gpus: GPURequest;
  readonly files: Files;
  readonly container: Container;
  readonly settings: PodsSettings;
  readonly flavors?: PodFlavors | undefined;
  /** True if no other pod has the PVC of the weights mounted when this one starts. */
  readonly isAlone: boolean;
}

export function podTemplateOf(input: PodTemplateInput): PodTemplate {
  const { service, model, pod, gpus, files, container, isAlone } = input;
  const { spec } = service;
  const restartedAt = service.metadata.annotations?.[ANNOTATION_RESTARTED_AT]?.slice(0, RESTARTED_AT_MAX);
  const gauges = gaugesOf(pod, spec.inFlightProbe);
  const mounts = mountLabel(files);
  const key = spec.auth !== undefined && pod.metrics?.isProtected === true ? [IN_FLIGHT_NEEDS_KEY] : [];
  return {
    metadata: {
      labels: {
        ...withoutOurs(spec.podLabels),
        ...queueLabels(service),
        ...(mounts === undefined ? {} : { [mounts]: "mounted" }),
        ...familyLabels(model),
        ...ownerLabels(service),
        ...MANAGED_BY,
      },
      annotations: {
        "kubectl.kubernetes.io/default-container": ENGINE_CONTAINER,
        ...(spec.disruption?.protectAlways === true ? NEVER_DISRUPT : {}),
        ...withoutOurs(spec.podAnnotations),
        ...queueAnnotations(service),
        ...(restartedAt === undefined ? {} : { [ANNOTATION_RESTARTED_AT]: restartedAt }),
        ...files.annotations,
        // Stored on the pod, because the service may have another runtime when the controller queries the pod.
        ...(gauges === undefined
          ? {}
          : { [ANNOTATION_IN_FLIGHT]: [gauges.path, gauges.names.join(","), ...key].join(" ") }),
      },
    },
    spec: {
      initContainers: files.fetching?.initContainers(isAlone),
      containers: [container],
      volumes: [...files.volumes],
      ...schedulingOf(input),
      resourceClaims:
        gpus.claims.length === 0
          ? undefined
          : (model.spec.hardware?.gpu?.resourceClaims as PodSpec["resourceClaims"]),
      imagePullSecrets: pullSecretsOf(input),
      runtimeClassName: spec.runtimeClassName,
      priorityClassName: spec.priorityClassName ?? priorityClassName(spec.priority),
      securityContext: podSecurity(spec.podSecurityContext, gpus),
      automountServiceAccountToken: false,
      // An engine would read a variable such as VLLM_PORT, of a Service named vllm, as one of its settings.
      enableServiceLinks: false,
      terminationGracePeriodSeconds: graceSeconds(spec.rollout.drainSeconds),
    },
  };
}

/** Pull secrets for the engine's image, and for ours if an init container uses it. */
function pullSecretsOf({ service, files, settings }: PodTemplateInput): PodSpec["imagePullSecrets"] {
  const ours = files.fetching === undefined ? [] : (settings.fetch?.imagePullSecrets ?? []);
  const given = service.spec.imagePullSecrets ?? [];
  const extra = ours.filter((name) => given.every((secret) => secret.name !== name));
  const all = [...given, ...extra.map((name) => ({ name }))];
  return all.length === 0 ? undefined : all;
}

/** Annotations that cluster-autoscaler and Karpenter honor. */
const NEVER_DISRUPT = {
  "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
  "karpenter.sh/do-not-disrupt": "true",
};

/** Without Metalbridge's own keys, which the SpecHonored condition reports as ignored. */
function withoutOurs(map: Readonly<Record<string, string>> = {}): Record<string, string> {
  return Object.fromEntries(Object.entries(map).filter(([key]) => !isOwnKey(key)));
}

/** The label of pods that mount a PVC which only one node at a time can mount. */
function mountLabel({ oneNodeClaim }: Files): string | undefined {
  return oneNodeClaim === undefined ? undefined : mountLabelOf(oneNodeClaim);
}

/** True if the user chooses nodes by spec.nodeSelector or node affinity, which take precedence over placement.mode Auto. */
export function isChosenByUser({ nodeSelector, affinity }: InferenceServiceSpec): boolean {
  return nodeSelector !== undefined || affinity?.nodeAffinity !== undefined;
}

/** True if the controller chooses the nodes of each pod, which a scheduling gate holds until then. */
export function hasGate(spec: InferenceServiceSpec): boolean {
  return spec.placement.mode === "Auto" && !isChosenByUser(spec);
}

/** Tolerations of the pods of a service. */
export function tolerationsOf({ tolerations = [] }: InferenceServiceSpec, { taints }: GPURequest) {
  return [...taints.map((key) => ({ key, operator: "Exists", effect: "NoSchedule" })), ...tolerations];
}

function schedulingOf({ service: { spec }, gpus, files, flavors }: PodTemplateInput): Partial<PodSpec> {
  const tolerations = tolerationsOf(spec, gpus);
  const given = withFlavors(withMounts(spec.affinity, mountLabel(files)), flavors);
  return {
    nodeSelector: flavors?.nodeSelector
      ? { ...flavors.nodeSelector, ...spec.nodeSelector }
      : spec.nodeSelector,
    tolerations: tolerations.length === 0 ? undefined : tolerations,
    affinity: withGPUMemory(given, gpus),
    schedulingGates: hasGate(spec) ? [{ name: GATE_PLACEMENT }] : undefined,
    topologySpreadConstraints: spec.topologySpreadConstraints,
  };
}

/** Label of NVIDIA's GPU feature discovery, in MiB. */
const GPU_MEMORY_LABEL = "nvidia.com/gpu.memory";

/** A preferred term. */
export type Weighted = { readonly weight: number };

export type NodeAffinity = {
  readonly nodeAffinity?: {
    readonly requiredDuringSchedulingIgnoredDuringExecution?: {
      readonly nodeSelectorTerms?: readonly Term[];
    };
    readonly preferredDuringSchedulingIgnoredDuringExecution?: readonly Weighted[];
  };
};

/** Required node selector terms, which are ORed. */
export function requiredTermsOf(affinity: PodSpec["affinity"]): readonly Term[] {
  const { nodeAffinity } = (affinity ?? {}) as NodeAffinity;
  return nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
}

/**
 * True if preferences must not be added. Karpenter drops required terms one by one before the first preference, so with both it
 * would come to the last term first.
 */
export function hasSeveralTerms(affinity: PodSpec["affinity"]): boolean {
  return requiredTermsOf(affinity).length > 1;
}

/** Adds the terms of flavors, which stay in their order, and their preferences. */
function withFlavors(given: PodSpec["affinity"], flavors: PodFlavors | undefined): PodSpec["affinity"] {
  const { terms, preferred = [] } = flavors ?? {};
  if (terms === undefined) return given;
  const required = withEachTerm(
    given,
    terms.map(({ matchExpressions = [] }) => matchExpressions),
  );
  if (preferred.length === 0) return required;
  const { nodeAffinity } = required as NodeAffinity;
  const preferredDuringSchedulingIgnoredDuringExecution = [
    ...(nodeAffinity?.preferredDuringSchedulingIgnoredDuringExecution ?? []),
    ...preferred,
  ];
  return { ...required, nodeAffinity: { ...nodeAffinity, preferredDuringSchedulingIgnoredDuringExecution } };
}

/** Requires that the node's GPUs are large enough or of unknown size. */
function withGPUMemory(given: PodSpec["affinity"], { memoryMiB }: GPURequest): PodSpec["affinity"] {
  if (memoryMiB === undefined) return given;
  return withEachTerm(given, [
    [{ key: GPU_MEMORY_LABEL, operator: "Gt", values: [String(memoryMiB)] }],
    [{ key: GPU_MEMORY_LABEL, operator: "DoesNotExist" }],
  ]);
}

/** Requires one of the alternatives in addition to one of the existing node selector terms, which are ORed. */
function withEachTerm(
  given: PodSpec["affinity"],
  alternatives: readonly (readonly object[])[],
): NonNullable<PodSpec["affinity"]> {
  const { nodeAffinity } = (given ?? {}) as NodeAffinity;
  const required = nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  const nodeSelectorTerms = (required?.nodeSelectorTerms ?? [{}]).flatMap((term: Term) =>
    alternatives.map((added) => ({
      ...term,
      matchExpressions: [...(term.matchExpressions ?? []), ...added],
    })),
  );
  const requiredDuringSchedulingIgnoredDuringExecution = { ...required, nodeSelectorTerms };
  return { ...given, nodeAffinity: { ...nodeAffinity, requiredDuringSchedulingIgnoredDuringExecution } };
}

/** The restricted Pod Security level. With runAsUser 0, runAsNonRoot would only keep the pod from starting. */
function podSecurity(
  given: Readonly<Record<string, unknown>> = {},
  { count, vendor }: GPURequest,
): Readonly<Record<string, unknown>> {
  const needsGroups = count > 0 && vendor !== "nvidia";
  return {
    runAsNonRoot: given.runAsUser === 0 ? undefined : true,
    runAsUser: POD_USER,
    runAsGroup: POD_USER,
    fsGroup: POD_USER,
    // Otherwise the kubelet walks through all files of the volume at each start.
    fsGroupChangePolicy: "OnRootMismatch",
    supplementalGroups: needsGroups ? DEVICE_GROUPS : undefined,
    seccompProfile: { type: "RuntimeDefault" },
    ...given,
  };
}
