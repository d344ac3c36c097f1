/** Names that all parts share: API group, labels, annotations, finalizers, field managers, namespaces. */

export const GROUP = "metalbridge.dev";
export const VERSION = "v1alpha1";
export const API_VERSION = `${GROUP}/${VERSION}`;

/** Label of the agent's launchd job. */
export const LAUNCHD_LABEL = "dev.metalbridge.agent";

export const LABEL_HOST = "metalbridge.dev/host";
export const LABEL_SERVICE = "metalbridge.dev/service";
export const LABEL_SERVICE_UID = "metalbridge.dev/service-uid";
/** On the workers of a group, instead of LABEL_SERVICE, so that the Service sends requests to leaders only. */
export const LABEL_WORKER_OF = "metalbridge.dev/worker-of";
/** Labels of LeaderWorkerSet: the set of a pod, its group, and its position in the group, 0 for the leader. */
export const LABEL_GROUP_SET = "leaderworkerset.sigs.k8s.io/name";
export const LABEL_GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index";
export const LABEL_WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index";
/** On pods of a group: number of pods of the group. */
export const ANNOTATION_GROUP_SIZE = "leaderworkerset.sigs.k8s.io/size";
export const ANNOTATION_EXCLUSIVE_TOPOLOGY = "leaderworkerset.sigs.k8s.io/exclusive-topology";
export const LABEL_REVISION = "metalbridge.dev/revision";
export const LABEL_REPLICA = "metalbridge.dev/replica";
/** On objects that serve a Model or download it: spec.familyName of the Model. */
export const LABEL_MODEL_FAMILY = "metalbridge.dev/model-family";
/** On objects of a Model's download: the name of the Model, and the key of its source, which is also the folder on the volume. */
export const LABEL_MODEL = "metalbridge.dev/model";
export const LABEL_MODEL_CACHE = "metalbridge.dev/model-cache";
/** On pods, followed by a hash of the claim: they mount a claim that only one node can mount at a time. */
export const LABEL_MOUNTS = "metalbridge.dev/mounts-";
/** On the Job and the pods of a benchmark: key of the result. */
export const LABEL_BENCHMARK = "metalbridge.dev/benchmark";
/** On a Node: its relative cost as a number, in the unit of `Host.spec.cost`. */
export const ANNOTATION_COST = "metalbridge.dev/cost";
/** On the ConfigMap with the report of a cluster node. */
export const LABEL_NODE_REPORT = "metalbridge.dev/node-report";
/** On the BackendRuntimes of our own runtimes, which the controller restores. */
export const LABEL_BUILT_IN = "metalbridge.dev/built-in";
/** On the Secret of a key of the gateway. */
export const LABEL_GATEWAY_KEY = "metalbridge.dev/gateway-key";
/** On the ConfigMap with the usage of one gateway on one day, and its day and month in UTC. */
export const LABEL_USAGE = "metalbridge.dev/gateway-usage";
export const LABEL_USAGE_DAY = "metalbridge.dev/usage-day";
export const LABEL_USAGE_MONTH = "metalbridge.dev/usage-month";
/** On the rules of a service level objective that the controller makes; Pyrra copies the other labels to its own. */
export const LABEL_SLO_RULES = "metalbridge.dev/slo-rules";
export const LABEL_SERVICE_NAME = "kubernetes.io/service-name";
/**
 * On the EndpointSlice that leads a Service to the relay: the InferenceService. Slices of replicas have `LABEL_SERVICE` instead,
 * and, if sealed, no `LABEL_SERVICE_NAME`, so that kube-proxy ignores them.
 */
export const LABEL_RELAYED_SERVICE = "metalbridge.dev/relayed-service";
export const SLICE_MANAGED_BY_CONTROLLER = "controller.metalbridge.dev";
export const LABEL_SLICE_MANAGED_BY = "endpointslice.kubernetes.io/managed-by";
export const SLICE_MANAGED_BY = "agent.metalbridge.dev";

/** On an EndpointSlice: comma-separated CIDRs or addresses it may hold, copied from `Host.spec.addresses`. */
export const ANNOTATION_ADDRESSES = "metalbridge.dev/addresses";
/** On the EndpointSlice of a sealed replica: comma-separated fingerprints of its host's certificates, copied from `Host.status.transport`. */
export const ANNOTATION_FINGERPRINTS = "metalbridge.dev/fingerprints";
/**
 * On a Host: the time at which an operator marked the machine lost. It takes effect once its Lease has expired. A value that
 * starts with `force` takes effect immediately and until it is removed.
 */
export const ANNOTATION_LOST = "metalbridge.dev/lost";
export const LOST_BY_FORCE = "force";

/** On the account of a group of machines: what its token admits, and the hosts that it has admitted, both as JSON. */
export const ANNOTATION_JOIN_GROUP = "metalbridge.dev/join-group";
export const ANNOTATION_JOINED = "metalbridge.dev/joined";
/** On a Host that joined with the token of a group: the HostJoinRequest, which is the machine's public key. */
export const ANNOTATION_JOIN_REQUEST = "metalbridge.dev/join-request";

/** On a preempted InferenceReplica: the slot, `namespace/service/ordinal`, that preempts it. */
export const ANNOTATION_PREEMPTED_BY = "metalbridge.dev/preempted-by";

/** On an InferenceReplica: why placement chose its host; on a pod: which nodes it prefers and why. As text, and as the best score. */
export const ANNOTATION_PLACEMENT_REASON = "metalbridge.dev/placement-reason";
export const ANNOTATION_PLACEMENT_SCORE = "metalbridge.dev/placement-score";

/** On an object that the controller applies: hash of the applied content. */
export const ANNOTATION_APPLIED = "metalbridge.dev/applied";

/** On a pod: path and gauges of its requests in flight, as in `/metrics running,queued`, with a third word if the path requires the API key. */
export const ANNOTATION_IN_FLIGHT = "metalbridge.dev/in-flight";
export const IN_FLIGHT_NEEDS_KEY = "with-key";
/** On a pod: time at which earlier pods reached spec.maxPodLifetimeSeconds. */
export const ANNOTATION_RENEWED_AT = "metalbridge.dev/renewed-at";
/** On a Deployment that is paused until its pods are idle: start of the wait. */
export const ANNOTATION_WAITING_SINCE = "metalbridge.dev/waiting-since";
/** Scheduling gate of pods with placement.mode Auto; the controller chooses their nodes and removes it. */
export const GATE_PLACEMENT = "metalbridge.dev/placement";
/** On a Deployment whose pods move to other nodes while they serve: start of the move, the nodes to avoid, and the state to return to. */
export const ANNOTATION_NODE_MOVE = "metalbridge.dev/node-move";

/** On a ControllerRevision of pods: digest of the desired state that its template was last rendered for. */
export const ANNOTATION_RENDERED_FOR = "metalbridge.dev/rendered-for";
/** On a ControllerRevision: digest of the spec and of the restart request that last took the content of the BackendRuntime. */
export const ANNOTATION_BACKEND_REQUEST = "metalbridge.dev/backend-request";
/** On an InferenceService, and copied to its pods: time at which their replacement with the current defaults was requested. */
export const ANNOTATION_RESTARTED_AT = "metalbridge.dev/restarted-at";

export const FINALIZER_SERVICE = "metalbridge.dev/service";
export const FINALIZER_ENGINE = "metalbridge.dev/engine";

export const MANAGER_CONTROLLER = "metalbridge-controller";
/** Owns the list of models that a host prefetches. */
export const MANAGER_PREFETCH = "metalbridge-prefetch";
/** Owns the benchmark that a host is asked for. */
export const MANAGER_BENCHMARK = "metalbridge-benchmark";
/** Owns the labels that describe the hardware of Nodes and Hosts. */
export const MANAGER_LABELS = "metalbridge-labels";
export const MANAGER_AGENT = "metalbridge-agent";
/** reportingController of Events that agents create. */
export const AGENT_REPORTER = "metalbridge.dev/agent";
/** Owns the BackendRuntimes of our own runtimes. */
export const MANAGER_BUILT_IN = "metalbridge-built-in";
export const MANAGER_NODE = "metalbridge-node";

/** Namespace of the hosts' Leases, which have the names of their Hosts. */
export const NAMESPACE_HOSTS = "metalbridge-hosts";
/** Namespace of the accounts of groups and of their HostJoinRequests. */
export const NAMESPACE_JOIN = "metalbridge-join";
/** Namespace of the controller and of its leader election Lease `metalbridge-controller`. */
export const NAMESPACE_SYSTEM = "metalbridge-system";

/**
 * In the system namespace: the Secret with the certificates of gateways and relays. `tls.crt` and `tls.key` are in use; `next.crt`,
 * `next.key` and `previous.crt` exist during a rotation. Hosts serve clients with any of these certificates.
 */
export const SECRET_TRANSPORT = "metalbridge-transport";

/** Port name in Service and EndpointSlice, by which kube-proxy matches their ports. */
export const PORT_NAME = "http";

/** The container of a pod that runs the engine. */
export const ENGINE_CONTAINER = "engine";
