/** Minimal types of pods and related objects. Fields that are only copied have an open type. */
import type { LabelSelector } from "../api/fields/kubernetes.ts";
import type { KubeObject } from "./types.ts";

type Open = Readonly<Record<string, unknown>>;

export interface Container {
  name: string;
  image: string;
  command?: readonly string[];
  args?: readonly string[];
  env?: readonly Open[];
  envFrom?: readonly Open[];
  ports?: readonly { readonly name?: string; readonly containerPort: number; readonly protocol?: string }[];
  resources?: {
    limits?: Record<string, string>;
    requests?: Record<string, string>;
    claims?: readonly Open[];
  };
  volumeMounts?: readonly Open[];
  startupProbe?: Open;
  livenessProbe?: Open;
  readinessProbe?: Open;
  lifecycle?: Open;
  securityContext?: Open;
  terminationMessagePath?: string;
  terminationMessagePolicy?: string;
  /** On an init container, Always makes it a sidecar. */
  restartPolicy?: string;
}

export interface PodSpec {
  containers: readonly Container[];
  initContainers?: readonly Container[];
  volumes?: readonly Open[];
  nodeName?: string;
  nodeSelector?: Readonly<Record<string, string>>;
  tolerations?: readonly Open[];
  affinity?: Open;
  schedulingGates?: readonly { readonly name: string }[];
  topologySpreadConstraints?: readonly Open[];
  priorityClassName?: string;
  priority?: number;
  runtimeClassName?: string;
  imagePullSecrets?: readonly Open[];
  securityContext?: Open;
  serviceAccountName?: string;
  automountServiceAccountToken?: boolean;
  enableServiceLinks?: boolean;
  terminationGracePeriodSeconds?: number;
  restartPolicy?: string;
  activeDeadlineSeconds?: number;
  resourceClaims?: readonly {
    readonly name: string;
    readonly resourceClaimName?: string;
    readonly resourceClaimTemplateName?: string;
  }[];
}

export interface PodTemplate {
  metadata?: { labels?: Record<string, string>; annotations?: Record<string, string> };
  spec: PodSpec;
}

export interface StatusCondition {
  type: string;
  status: "True" | "False" | "Unknown";
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
}

export type DeploymentStrategy =
  | { readonly type: "Recreate" }
  | {
      readonly type: "RollingUpdate";
      readonly rollingUpdate: {
        readonly maxUnavailable: number | string;
        readonly maxSurge: number | string;
      };
    };

export interface Deployment extends KubeObject {
  spec: {
    replicas?: number;
    selector: LabelSelector;
    template: PodTemplate;
    strategy?: DeploymentStrategy;
    revisionHistoryLimit?: number;
    progressDeadlineSeconds?: number;
    paused?: boolean;
  };
  status?: {
    observedGeneration?: number;
    replicas?: number;
    updatedReplicas?: number;
    availableReplicas?: number;
    conditions?: readonly StatusCondition[];
  };
}

/** leaderworkerset.x-k8s.io/v1: groups of pods, each with a leader and its workers. `replicas` counts groups. */
export interface LeaderWorkerSet extends KubeObject {
  spec: {
    replicas?: number;
    leaderWorkerTemplate: {
      size: number;
      leaderTemplate: PodTemplate;
      workerTemplate: PodTemplate;
      restartPolicy?: string;
    };
    rolloutStrategy?: Open;
    startupPolicy?: string;
  };
  status?: {
    observedGeneration?: number;
    replicas?: number;
    readyReplicas?: number;
    updatedReplicas?: number;
    conditions?: readonly StatusCondition[];
  };
}

/** Definition of a kind. Its schemas are not kept. */
export interface KindDefinition extends KubeObject {
  spec: { versions?: readonly { readonly name: string; readonly served?: boolean }[] };
  status?: { conditions?: readonly StatusCondition[] };
}

interface ContainerEnd {
  exitCode: number;
  reason?: string;
  message?: string;
  startedAt?: string;
  finishedAt?: string;
}

export interface ContainerStatus {
  name: string;
  ready?: boolean;
  /** True once the startup probe has succeeded. */
  started?: boolean;
  restartCount?: number;
  state?: {
    waiting?: { reason?: string; message?: string };
    running?: { startedAt?: string };
    terminated?: ContainerEnd;
  };
  lastState?: { terminated?: ContainerEnd };
}

export interface Pod extends KubeObject {
  spec: PodSpec;
  status?: {
    phase?: "Pending" | "Running" | "Succeeded" | "Failed" | "Unknown";
    reason?: string;
    message?: string;
    podIP?: string;
    /** Node on which the scheduler preempts other pods for this one. */
    nominatedNodeName?: string;
    conditions?: readonly StatusCondition[];
    containerStatuses?: readonly ContainerStatus[];
    initContainerStatuses?: readonly ContainerStatus[];
    resourceClaimStatuses?: readonly { name: string; resourceClaimName?: string }[];
  };
}

/** True if no container of the pod runs or will run again. */
export function hasPodEnded({ status }: Pick<Pod, "status">): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}

/** True for the reason with which a container waits for an image that its node cannot use. */
export function isImageFailure(reason: string): boolean {
  return /^(ErrImage|ImagePull|InvalidImageName|ImageInspectError|RegistryUnavailable|SignatureValidationFailed)/.test(
    reason,
  );
}

export interface Node extends KubeObject {
  spec?: { unschedulable?: boolean; taints?: readonly Open[] };
  status?: {
    capacity?: Readonly<Record<string, string>>;
    allocatable?: Readonly<Record<string, string>>;
    conditions?: readonly (StatusCondition & { lastHeartbeatTime?: string })[];
    nodeInfo?: {
      architecture?: string;
      operatingSystem?: string;
      osImage?: string;
      kubeletVersion?: string;
    };
    addresses?: readonly { readonly type: string; readonly address: string }[];
  };
}

/** A value of an attribute of a device; a version is a semantic version. */
export interface DeviceAttribute {
  string?: string;
  int?: number;
  bool?: boolean;
  version?: string;
}

export interface ResourceDevice {
  name: string;
  /** A name without a domain belongs to the driver. */
  attributes?: Readonly<Record<string, DeviceAttribute>>;
  capacity?: Readonly<Record<string, { value?: string }>>;
  /** Present if the device shares counters with others, of which only some can be allocated at a time. */
  consumesCounters?: readonly Open[];
}

/** resource.k8s.io/v1: devices that a pod requests, and those that it got. */
export interface ResourceClaim extends KubeObject {
  status?: {
    allocation?: {
      devices?: {
        /** `request` of a prioritized list is `REQUEST/SUBREQUEST`. */
        results?: readonly { request: string; driver: string; pool: string; device: string }[];
      };
    };
  };
}

/** resource.k8s.io/v1: the claim that each pod gets. */
export interface ResourceClaimTemplate extends KubeObject {
  spec: {
    spec: {
      devices: {
        requests: readonly {
          name: string;
          /** At most 8; the first one that can be allocated counts. */
          firstAvailable: readonly {
            name: string;
            deviceClassName: string;
            allocationMode: "ExactCount";
            count: number;
          }[];
        }[];
      };
    };
  };
}

/** resource.k8s.io/v1: devices that a driver of dynamic resource allocation offers. */
export interface ResourceSlice extends KubeObject {
  spec: {
    driver: string;
    /** Absent if the devices are not those of one node. */
    nodeName?: string;
    pool: { name: string; generation: number; resourceSliceCount: number };
    devices?: readonly ResourceDevice[];
  };
}

export interface Job extends KubeObject {
  spec: {
    template: PodTemplate;
    backoffLimit?: number;
    activeDeadlineSeconds?: number;
    ttlSecondsAfterFinished?: number;
    podReplacementPolicy?: string;
    podFailurePolicy?: Open;
  };
  status?: { conditions?: readonly StatusCondition[] };
}

export interface PersistentVolumeClaim extends KubeObject {
  spec: {
    accessModes?: readonly string[];
    storageClassName?: string;
    volumeName?: string;
    resources?: { requests?: Record<string, string> };
  };
  status?: {
    phase?: "Pending" | "Bound" | "Lost";
    capacity?: Record<string, string>;
  };
}

export interface PersistentVolume extends KubeObject {
  spec: {
    hostPath?: Open;
    local?: Open;
    nodeAffinity?: {
      required?: {
        nodeSelectorTerms: readonly {
          matchExpressions?: readonly { key: string }[];
          matchFields?: readonly { key: string }[];
        }[];
      };
    };
  };
}

export interface StorageClass extends KubeObject {
  provisioner: string;
  volumeBindingMode?: "Immediate" | "WaitForFirstConsumer";
}

export interface HorizontalPodAutoscaler extends KubeObject {
  spec: {
    scaleTargetRef: { apiVersion: string; kind: string; name: string };
    minReplicas?: number;
    maxReplicas: number;
    metrics?: readonly Open[];
    behavior?: Open;
  };
  status?: { conditions?: readonly StatusCondition[] };
}

/** The ScaledObject of KEDA, v1alpha1. */
export interface ScaledObject extends KubeObject {
  spec: {
    scaleTargetRef: { apiVersion: string; kind: string; name: string };
    minReplicaCount?: number;
    maxReplicaCount?: number;
    advanced?: Open;
    triggers: readonly Open[];
  };
  status?: { conditions?: readonly StatusCondition[] };
}

export interface PodDisruptionBudget extends KubeObject {
  spec: {
    selector: LabelSelector;
    maxUnavailable?: number | string;
    unhealthyPodEvictionPolicy?: string;
  };
}

export interface NetworkPolicy extends KubeObject {
  spec: {
    podSelector: LabelSelector;
    policyTypes?: readonly string[];
    ingress?: readonly Open[];
    egress?: readonly Open[];
  };
}

export interface PodMonitor extends KubeObject {
  spec: { selector: LabelSelector; podMetricsEndpoints: readonly Open[] };
}

/** A recording rule or an alert. */
export interface PrometheusRuleEntry {
  record?: string;
  alert?: string;
  expr: string;
  labels: Readonly<Record<string, string>>;
  annotations?: Readonly<Record<string, string>>;
}

export interface PrometheusRule extends KubeObject {
  spec: {
    groups: readonly { name: string; interval?: string; rules: readonly PrometheusRuleEntry[] }[];
  };
}

/** pyrra.dev/v1alpha1. The metrics of `indicator` are selectors without functions. */
export interface ServiceLevelObjective extends KubeObject {
  spec: { description: string; target: string; window: string; indicator: Open };
}

/** kueue.x-k8s.io/v1beta2: the request of a pod, or of a group of pods, for quota. */
export interface QueueWorkload extends KubeObject {
  status?: { conditions?: readonly StatusCondition[] };
}

/** `value` and `preemptionPolicy` cannot be changed. */
export interface PriorityClass extends KubeObject {
  value: number;
  description?: string;
  globalDefault?: boolean;
  preemptionPolicy?: string;
}
