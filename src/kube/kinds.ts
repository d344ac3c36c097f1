/** Built-in kinds of Kubernetes that Metalbridge reads or writes. */
import type {
  AIGatewayRoute,
  AIServiceBackend,
  BackendTrafficPolicy,
  GatewayBackend,
  HttpRoute,
} from "./gateway-objects.ts";
import type {
  AccessReview,
  ApiService,
  ConfigMap,
  ControllerRevision,
  EndpointSlice,
  KubeEvent,
  Lease,
  Namespace,
  Role,
  RoleBinding,
  Secret,
  SelfReview,
  Service,
  SubjectAccessReview,
  TokenReview,
  ValidatingWebhooks,
} from "./objects.ts";
import type { Kind, KubeObject } from "./types.ts";
import type {
  Deployment,
  HorizontalPodAutoscaler,
  Job,
  KindDefinition,
  LeaderWorkerSet,
  NetworkPolicy,
  Node,
  PersistentVolume,
  PersistentVolumeClaim,
  Pod,
  PodDisruptionBudget,
  PodMonitor,
  PriorityClass,
  PrometheusRule,
  QueueWorkload,
  ResourceClaim,
  ResourceClaimTemplate,
  ResourceSlice,
  ScaledObject,
  ServiceLevelObjective,
  StorageClass,
} from "./workload-objects.ts";

const RBAC = "rbac.authorization.k8s.io";
const ADMISSION = "admissionregistration.k8s.io";
const ENVOY_GATEWAY = "gateway.envoyproxy.io";
const AI_GATEWAY = "aigateway.envoyproxy.io";
const FLOW_CONTROL = "flowcontrol.apiserver.k8s.io";

export const LEASES: Kind<Lease> = inNamespace("coordination.k8s.io", "Lease");
export const SERVICES: Kind<Service> = inNamespace("", "Service");
export const ENDPOINT_SLICES: Kind<EndpointSlice> = inNamespace("discovery.k8s.io", "EndpointSlice");
export const EVENTS: Kind<KubeEvent> = inNamespace("events.k8s.io", "Event");
export const SECRETS: Kind<Secret> = inNamespace("", "Secret");
export const CONFIG_MAPS: Kind<ConfigMap> = inNamespace("", "ConfigMap");
export const CONTROLLER_REVISIONS: Kind<ControllerRevision> = inNamespace("apps", "ControllerRevision");
/** Rights of the current credential; every account may create this review. */
export const ACCESS_REVIEWS: Kind<AccessReview> = clusterWide(
  "authorization.k8s.io",
  "SelfSubjectAccessReview",
);
/** Identity of the current credential; every account may create this review. */
export const SELF_REVIEWS: Kind<SelfReview> = clusterWide("authentication.k8s.io", "SelfSubjectReview");
/** Identity of a token. */
export const TOKEN_REVIEWS: Kind<TokenReview> = clusterWide("authentication.k8s.io", "TokenReview");
/** Rights of another account. */
export const SUBJECT_ACCESS_REVIEWS: Kind<SubjectAccessReview> = clusterWide(
  "authorization.k8s.io",
  "SubjectAccessReview",
);
export const NAMESPACES: Kind<Namespace> = clusterWide("", "Namespace");

/** Entry of an aggregated API. */
export const API_SERVICES: Kind<ApiService> = clusterWide("apiregistration.k8s.io", "APIService");

export const NODES: Kind<Node> = clusterWide("", "Node");
export const RESOURCE_CLAIMS: Kind<ResourceClaim> = inNamespace("resource.k8s.io", "ResourceClaim");
export const RESOURCE_CLAIM_TEMPLATES: Kind<ResourceClaimTemplate> = inNamespace(
  "resource.k8s.io",
  "ResourceClaimTemplate",
);
export const DEVICE_CLASSES: Kind<KubeObject> = clusterWide("resource.k8s.io", "DeviceClass");
export const RESOURCE_SLICES: Kind<ResourceSlice> = clusterWide("resource.k8s.io", "ResourceSlice");
export const DEPLOYMENTS: Kind<Deployment> = inNamespace("apps", "Deployment");
export const PODS: Kind<Pod> = inNamespace("", "Pod");
export const JOBS: Kind<Job> = inNamespace("batch", "Job");
export const PERSISTENT_VOLUME_CLAIMS: Kind<PersistentVolumeClaim> = inNamespace("", "PersistentVolumeClaim");
export const PERSISTENT_VOLUMES: Kind<PersistentVolume> = clusterWide("", "PersistentVolume");
export const STORAGE_CLASSES: Kind<StorageClass> = clusterWide("storage.k8s.io", "StorageClass");
export const AUTOSCALERS: Kind<HorizontalPodAutoscaler> = {
  ...inNamespace<HorizontalPodAutoscaler>("autoscaling", "HorizontalPodAutoscaler"),
  version: "v2",
};
/** A kind of KEDA, which many clusters do not have. */
export const SCALED_OBJECTS: Kind<ScaledObject> = {
  ...inNamespace<ScaledObject>("keda.sh", "ScaledObject"),
  version: "v1alpha1",
};
export const DISRUPTION_BUDGETS: Kind<PodDisruptionBudget> = inNamespace("policy", "PodDisruptionBudget");
export const NETWORK_POLICIES: Kind<NetworkPolicy> = inNamespace("networking.k8s.io", "NetworkPolicy");
/** A kind of another project, which many clusters do not have. */
export const LEADER_WORKER_SETS: Kind<LeaderWorkerSet> = inNamespace(
  "leaderworkerset.x-k8s.io",
  "LeaderWorkerSet",
);
export const CUSTOM_RESOURCES: Kind<KindDefinition> = clusterWide(
  "apiextensions.k8s.io",
  "CustomResourceDefinition",
);
/** Kinds of Envoy Gateway and of Envoy AI Gateway, which many clusters do not have. */
export const GATEWAY_BACKENDS: Kind<GatewayBackend> = {
  ...inNamespace<GatewayBackend>(ENVOY_GATEWAY, "Backend"),
  version: "v1alpha1",
};
export const BACKEND_TRAFFIC_POLICIES: Kind<BackendTrafficPolicy> = {
  ...inNamespace<BackendTrafficPolicy>(ENVOY_GATEWAY, "BackendTrafficPolicy"),
  version: "v1alpha1",
};
export const AI_SERVICE_BACKENDS: Kind<AIServiceBackend> = {
  ...inNamespace<AIServiceBackend>(AI_GATEWAY, "AIServiceBackend"),
  version: "v1beta1",
};
export const AI_GATEWAY_ROUTES: Kind<AIGatewayRoute> = {
  ...inNamespace<AIGatewayRoute>(AI_GATEWAY, "AIGatewayRoute"),
  version: "v1beta1",
};
/** A kind of the Gateway API, which many clusters do not have. */
export const HTTP_ROUTES: Kind<HttpRoute> = inNamespace("gateway.networking.k8s.io", "HTTPRoute");
/** A kind of the Prometheus operator, which many clusters do not have. */
export const POD_MONITORS: Kind<PodMonitor> = inNamespace("monitoring.coreos.com", "PodMonitor");
/** Kinds for rules of Prometheus, which many clusters do not have: of its operator, and of Pyrra. */
export const PROMETHEUS_RULES: Kind<PrometheusRule> = inNamespace("monitoring.coreos.com", "PrometheusRule");
export const SERVICE_LEVEL_OBJECTIVES: Kind<ServiceLevelObjective> = {
  ...inNamespace<ServiceLevelObjective>("pyrra.dev", "ServiceLevelObjective"),
  version: "v1alpha1",
};
/** A kind of Kueue, which many clusters do not have. */
export const QUEUE_WORKLOADS: Kind<QueueWorkload> = {
  ...inNamespace<QueueWorkload>("kueue.x-k8s.io", "Workload"),
  version: "v1beta2",
};

export const PRIORITY_CLASSES: Kind<PriorityClass> = clusterWide("scheduling.k8s.io", "PriorityClass");

export const RESOURCE_QUOTAS: Kind<KubeObject> = inNamespace("", "ResourceQuota");
export const SERVICE_ACCOUNTS: Kind<KubeObject> = inNamespace("", "ServiceAccount");

export const ROLES: Kind<Role> = inNamespace(RBAC, "Role");
export const ROLE_BINDINGS: Kind<RoleBinding> = inNamespace(RBAC, "RoleBinding");
export const CLUSTER_ROLES: Kind<Role> = clusterWide(RBAC, "ClusterRole");
export const CLUSTER_ROLE_BINDINGS: Kind<RoleBinding> = clusterWide(RBAC, "ClusterRoleBinding");

export const ADMISSION_POLICIES: Kind<KubeObject> = clusterWide(ADMISSION, "ValidatingAdmissionPolicy");
export const PRIORITY_LEVELS: Kind<KubeObject> = clusterWide(FLOW_CONTROL, "PriorityLevelConfiguration");
export const FLOW_SCHEMAS: Kind<KubeObject> = clusterWide(FLOW_CONTROL, "FlowSchema");
export const VALIDATING_WEBHOOKS: Kind<ValidatingWebhooks> = clusterWide(
  ADMISSION,
  "ValidatingWebhookConfiguration",
);
export const ADMISSION_POLICY_BINDINGS: Kind<KubeObject> = clusterWide(
  ADMISSION,
  "ValidatingAdmissionPolicyBinding",
);

function inNamespace<T extends KubeObject>(group: string, kind: string): Kind<T> {
  return { group, version: "v1", plural: pluralOf(kind), kind, namespaced: true };
}

function clusterWide<T extends KubeObject>(group: string, kind: string): Kind<T> {
  return { ...inNamespace<T>(group, kind), namespaced: false };
}

/** The plural that Kubernetes derives from a kind by convention. */
function pluralOf(kind: string): string {
  return `${kind.toLowerCase().replace(/y$/, "ie").replace(/s$/, "se")}s`;
}
