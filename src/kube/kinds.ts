/** Kubernetes' own kinds that Metalbridge touches, as the API server addresses them. */
import type {
  AccessReview,
  ConfigMap,
  ControllerRevision,
  EndpointSlice,
  KubeEvent,
  Lease,
  Namespace,
  Role,
  RoleBinding,
  Secret,
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
  NetworkPolicy,
  Node,
  PersistentVolumeClaim,
  Pod,
  PodDisruptionBudget,
  PodMonitor,
  PriorityClass,
  StorageClass,
} from "./workload-objects.ts";

const RBAC = "rbac.authorization.k8s.io";
const ADMISSION = "admissionregistration.k8s.io";
const FLOW_CONTROL = "flowcontrol.apiserver.k8s.io";

export const LEASES: Kind<Lease> = inNamespace("coordination.k8s.io", "leases", "Lease");
export const SERVICES: Kind<Service> = inNamespace("", "services", "Service");
export const ENDPOINT_SLICES: Kind<EndpointSlice> = inNamespace(
  "discovery.k8s.io",
  "endpointslices",
  "EndpointSlice",
);
export const EVENTS: Kind<KubeEvent> = inNamespace("events.k8s.io", "events", "Event");
export const SECRETS: Kind<Secret> = inNamespace("", "secrets", "Secret");
export const CONFIG_MAPS: Kind<ConfigMap> = inNamespace("", "configmaps", "ConfigMap");
export const CONTROLLER_REVISIONS: Kind<ControllerRevision> = inNamespace(
  "apps",
  "controllerrevisions",
  "ControllerRevision",
);
/** What the credential in use may do; anyone may ask. */
export const ACCESS_REVIEWS: Kind<AccessReview> = clusterWide(
  "authorization.k8s.io",
  "selfsubjectaccessreviews",
  "SelfSubjectAccessReview",
);
/** Whose token it is. */
export const TOKEN_REVIEWS: Kind<TokenReview> = clusterWide(
  "authentication.k8s.io",
  "tokenreviews",
  "TokenReview",
);
/** What another account may do. */
export const SUBJECT_ACCESS_REVIEWS: Kind<SubjectAccessReview> = clusterWide(
  "authorization.k8s.io",
  "subjectaccessreviews",
  "SubjectAccessReview",
);
export const NAMESPACES: Kind<Namespace> = clusterWide("", "namespaces", "Namespace");

export const NODES: Kind<Node> = clusterWide("", "nodes", "Node");
export const DEPLOYMENTS: Kind<Deployment> = inNamespace("apps", "deployments", "Deployment");
export const PODS: Kind<Pod> = inNamespace("", "pods", "Pod");
export const JOBS: Kind<Job> = inNamespace("batch", "jobs", "Job");
export const PERSISTENT_VOLUME_CLAIMS: Kind<PersistentVolumeClaim> = inNamespace(
  "",
  "persistentvolumeclaims",
  "PersistentVolumeClaim",
);
export const STORAGE_CLASSES: Kind<StorageClass> = clusterWide(
  "storage.k8s.io",
  "storageclasses",
  "StorageClass",
);
export const AUTOSCALERS: Kind<HorizontalPodAutoscaler> = {
  ...inNamespace<HorizontalPodAutoscaler>(
    "autoscaling",
    "horizontalpodautoscalers",
    "HorizontalPodAutoscaler",
  ),
  version: "v2",
};
export const DISRUPTION_BUDGETS: Kind<PodDisruptionBudget> = inNamespace(
  "policy",
  "poddisruptionbudgets",
  "PodDisruptionBudget",
);
export const NETWORK_POLICIES: Kind<NetworkPolicy> = inNamespace(
  "networking.k8s.io",
  "networkpolicies",
  "NetworkPolicy",
);
/** Of the Prometheus operator: absent in many clusters. */
export const POD_MONITORS: Kind<PodMonitor> = inNamespace(
  "monitoring.coreos.com",
  "podmonitors",
  "PodMonitor",
);

export const PRIORITY_CLASSES: Kind<PriorityClass> = clusterWide(
  "scheduling.k8s.io",
  "priorityclasses",
  "PriorityClass",
);

export const RESOURCE_QUOTAS: Kind<KubeObject> = inNamespace("", "resourcequotas", "ResourceQuota");
export const SERVICE_ACCOUNTS: Kind<KubeObject> = inNamespace("", "serviceaccounts", "ServiceAccount");

export const ROLES: Kind<Role> = inNamespace(RBAC, "roles", "Role");
export const ROLE_BINDINGS: Kind<RoleBinding> = inNamespace(RBAC, "rolebindings", "RoleBinding");
export const CLUSTER_ROLES: Kind<Role> = clusterWide(RBAC, "clusterroles", "ClusterRole");
export const CLUSTER_ROLE_BINDINGS: Kind<RoleBinding> = clusterWide(
  RBAC,
  "clusterrolebindings",
  "ClusterRoleBinding",
);

export const ADMISSION_POLICIES: Kind<KubeObject> = clusterWide(
  ADMISSION,
  "validatingadmissionpolicies",
  "ValidatingAdmissionPolicy",
);
export const PRIORITY_LEVELS: Kind<KubeObject> = clusterWide(
  FLOW_CONTROL,
  "prioritylevelconfigurations",
  "PriorityLevelConfiguration",
);
export const FLOW_SCHEMAS: Kind<KubeObject> = clusterWide(FLOW_CONTROL, "flowschemas", "FlowSchema");
export const VALIDATING_WEBHOOKS: Kind<ValidatingWebhooks> = clusterWide(
  ADMISSION,
  "validatingwebhookconfigurations",
  "ValidatingWebhookConfiguration",
);
export const ADMISSION_POLICY_BINDINGS: Kind<KubeObject> = clusterWide(
  ADMISSION,
  "validatingadmissionpolicybindings",
  "ValidatingAdmissionPolicyBinding",
);

function inNamespace<T extends KubeObject>(group: string, plural: string, kind: string): Kind<T> {
  return { group, version: "v1", plural, kind, namespaced: true };
}

function clusterWide<T extends KubeObject>(group: string, plural: string, kind: string): Kind<T> {
  return { group, version: "v1", plural, kind, namespaced: false };
}
