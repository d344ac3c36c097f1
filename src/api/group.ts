/** Names that every part agrees on: API group, labels, annotations, finalizers, field managers, namespaces. */

export const GROUP = "metalbridge.dev";
export const VERSION = "v1alpha1";
export const API_VERSION = `${GROUP}/${VERSION}`;

export const LABEL_HOST = "metalbridge.dev/host";
export const LABEL_SERVICE = "metalbridge.dev/service";
export const LABEL_SERVICE_UID = "metalbridge.dev/service-uid";
export const LABEL_REVISION = "metalbridge.dev/revision";
export const LABEL_REPLICA = "metalbridge.dev/replica";
/** On what belongs to a Model's download: its name, and the key of its source, which is the folder on the volume. */
export const LABEL_MODEL = "metalbridge.dev/model";
export const LABEL_MODEL_CACHE = "metalbridge.dev/model-cache";
/** On pods, followed by a hash: they mount this claim, which only one node at a time can mount. */
export const LABEL_MOUNTS = "metalbridge.dev/mounts-";
/** On the ConfigMap in which a node of the cluster says what it is. */
export const LABEL_NODE_REPORT = "metalbridge.dev/node-report";
export const LABEL_SERVICE_NAME = "kubernetes.io/service-name";
export const LABEL_SLICE_MANAGED_BY = "endpointslice.kubernetes.io/managed-by";
export const SLICE_MANAGED_BY = "agent.metalbridge.dev";

/** On an EndpointSlice: comma-separated CIDRs or addresses it may hold, copied from `Host.spec.addresses`. */
export const ANNOTATION_ADDRESSES = "metalbridge.dev/addresses";
/**
 * On a Host: the time at which an operator declared the machine lost. Takes effect once its Lease has expired; at
 * once, and until it is removed, where the value starts with `force`.
 */
export const ANNOTATION_LOST = "metalbridge.dev/lost";
export const LOST_BY_FORCE = "force";

/** On the account of a group of machines: what its token admits, and whom it has admitted; both JSON. */
export const ANNOTATION_JOIN_GROUP = "metalbridge.dev/join-group";
export const ANNOTATION_JOINED = "metalbridge.dev/joined";
/** On a Host that joined with the token of a group: the HostJoinRequest, which is the machine's public key. */
export const ANNOTATION_JOIN_REQUEST = "metalbridge.dev/join-request";

/** On a preempted InferenceReplica: the slot, `namespace/service/ordinal`, that preempts it. */
export const ANNOTATION_PREEMPTED_BY = "metalbridge.dev/preempted-by";

/** On an InferenceReplica: why placement chose its host, in words and as the score that won. */
export const ANNOTATION_PLACEMENT_REASON = "metalbridge.dev/placement-reason";
export const ANNOTATION_PLACEMENT_SCORE = "metalbridge.dev/placement-score";

/** On an object that the controller applies: hash of what it applied. */
export const ANNOTATION_APPLIED = "metalbridge.dev/applied";

/** On a pod: where it reports its requests in flight, as in `/metrics running,queued`; a third word if that needs the API key. */
export const ANNOTATION_IN_FLIGHT = "metalbridge.dev/in-flight";
export const IN_FLIGHT_NEEDS_KEY = "with-key";
/** On a pod: when pods before it had reached spec.maxPodLifetimeSeconds. */
export const ANNOTATION_RENEWED_AT = "metalbridge.dev/renewed-at";
/** On a Deployment that is paused until its pods are idle: since when. */
export const ANNOTATION_WAITING_SINCE = "metalbridge.dev/waiting-since";
/** On a Deployment: the nodes that placement.mode Auto keeps its pods away from and prefers, as JSON. */
export const ANNOTATION_NODE_CHOICE = "metalbridge.dev/node-choice";
/** On a Deployment whose pods get another choice of nodes while they serve: since when, and in a move the choice to return to. */
export const ANNOTATION_NODE_MOVE = "metalbridge.dev/node-move";

/** On a Deployment: a digest of the wish that its template was rendered for and the runtime that was chosen, as in `3f9c… vllm`. */
export const ANNOTATION_RENDERED_FOR = "metalbridge.dev/rendered-for";
/** On a Deployment: its template as it was rendered, as JSON; without what others have added to it. */
export const ANNOTATION_TEMPLATE = "metalbridge.dev/template";
/** On an InferenceService, and from there on its pods: when their replacement was asked for, with the present defaults. */
export const ANNOTATION_RESTARTED_AT = "metalbridge.dev/restarted-at";

export const FINALIZER_SERVICE = "metalbridge.dev/service";
export const FINALIZER_ENGINE = "metalbridge.dev/engine";

export const MANAGER_CONTROLLER = "metalbridge-controller";
/** Holds the replicas of a Deployment while an autoscaler decides them. */
export const MANAGER_AUTOSCALING = "metalbridge-autoscaling";
/** Of what hosts are asked to prefetch. */
export const MANAGER_PREFETCH = "metalbridge-prefetch";
export const MANAGER_AGENT = "metalbridge-agent";
/** Who reports the Events of agents: their reportingController. */
export const AGENT_REPORTER = "metalbridge.dev/agent";
export const MANAGER_NODE = "metalbridge-node";

/** Leases of hosts, one per host, named like the Host. */
export const NAMESPACE_HOSTS = "metalbridge-hosts";
/** One account for each group of machines that may ask to become hosts, and their requests. */
export const NAMESPACE_JOIN = "metalbridge-join";
/** The controller's leader-election Lease `metalbridge-controller` lives here. */
export const NAMESPACE_SYSTEM = "metalbridge-system";

/** The one port name that Service and EndpointSlice share; kube-proxy joins on it. */
export const PORT_NAME = "http";
