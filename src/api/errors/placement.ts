/** Scheduling services on hosts. */
import type { ErrorEntry } from "./entry.ts";

export const placementErrors = {
  ControllerConfigInvalid: {
    what: "A setting of the controller is unknown or has an invalid value; the message names it.",
    do: "fix the setting",
    command: "metalbridge controller --help",
  },
  ServerConfigInvalid: {
    what: "A setting of the server is unknown or has an invalid value; the message names it.",
    do: "fix the setting",
    command: "metalbridge server --help",
  },
  ExtenderRequestInvalid: {
    what: "A request to the scheduler extender is not one of kube-scheduler's extender protocol: malformed JSON, no pod, or nodes without names.",
    do: "compare the extender in the KubeSchedulerConfiguration with docs/scheduler-extender.md",
  },
  ExtenderRequestTooLarge: {
    what: "A request to the scheduler extender has more than 128 MiB, or all requests together have more than 192 MiB, because the scheduler sends whole Nodes.",
    do: "set nodeCacheCapable: true for this extender in the KubeSchedulerConfiguration, so that the scheduler sends names",
  },
  NodeConfigInvalid: {
    what: "A setting of `metalbridge node` is unknown or has an invalid value; the message names it.",
    do: "fix the setting",
    command: "metalbridge node --help",
  },
  NoHosts: {
    what: "No host is registered, or no agent has joined yet, so nothing can run.",
    do: "register a Mac with `metalbridge host add NAME`, and run the printed command on that Mac",
    command: "kubectl get hosts",
  },
  NoHostFits: {
    what: "No host can run this replica now; status.placement has the reason for each host.",
    do: "read the nearest misses in status.placement and fix what they name",
    command: "kubectl get isvc NAME -o jsonpath='{.status.placement}'",
  },
  NoHostWithMemory: {
    what: "Insufficient memory: the replica's claim does not fit on any host in addition to the existing claims.",
    do: "use a smaller context, fewer slots or a quantized cache, free memory, or add a host",
    command: "kubectl get irep -A",
  },
  HostNotNamed: { what: "The host is not in spec.placement.hosts.", do: "add it there, or remove the list" },
  HostNotSelected: {
    what: "The host's labels do not match spec.placement.hostSelector.",
    do: "label the host or change the selector",
    command: "kubectl label host NAME KEY=VALUE",
  },
  FlavorNotFound: {
    what: "The service names a flavor in spec.flavors that its Model does not have. Its other flavors are used.",
    do: "correct spec.flavors of the service, or add the flavor to the Model",
    command: "kubectl get mdl NAME -o jsonpath='{.spec.flavors[*].name}'",
  },
  FlavorPreferred: { what: "The service runs on the first of its flavors.", do: "nothing to do" },
  FlavorFallback: {
    what: "The service runs on a flavor that is not its first, because the preferred ones had no room; the message has the reason for each.",
    do: "nothing to do; to use a preferred flavor that has become free, run `metalbridge rollout restart NAME`",
    command: "kubectl get isvc NAME -o jsonpath='{.status.flavor}'",
  },
  FlavorAvailable: {
    what: "A preferred flavor has room, but the service runs on another one. It is used at the next rollout, or by live eviction: nothing restarts only because a better place has become free.",
    do: "nothing to do; to move now, run `metalbridge rollout restart NAME`",
  },
  FlavorFull: {
    what: "Hosts or nodes match the flavor, but none has room for the replicas.",
    do: "free memory or GPUs there, add a machine, or lower the requirements of the service",
  },
  FlavorUnmatched: {
    what: "No host or node matches the flavor: its hostSelector, its nodeSelector, or the GPUs in its limits.",
    do: "label a machine, add one, or correct the flavor in the Model",
    command: "kubectl get mbhost,nodes --show-labels",
  },
  FlavorExcluded: {
    what: "The settings of the service, or invalid limits, exclude the flavor.",
    do: "correct the field in the message",
  },
  NoFlavorFits: {
    what: "No flavor has room for a replica; the message has the reason for each flavor.",
    do: "fix what the message names for one of the flavors, or add a flavor to the Model",
    command: "kubectl get isvc NAME -o jsonpath='{.status.flavor}'",
  },
  HostLost: {
    what: "The host is marked lost: its Lease expired more than hostLostSeconds ago, and its replicas are rescheduled.",
    do: "restart its agent, or delete the Host",
    command: "kubectl describe host NAME",
  },
  HostUnreachable: {
    what: "The host's agent does not renew its Lease, so its endpoints are withdrawn.",
    do: "check that the host is powered on and connected, and that its agent runs",
    command: "kubectl describe host NAME",
  },
  HostReachable: { what: "The host's agent renews its Lease.", do: "nothing to do" },
  HostNeverSeen: {
    what: "The host is registered, but no agent has joined as this host yet: its Lease was never renewed. This is not an error; hosts may be registered long before they join.",
    do: "on the machine, run the command that `metalbridge host add NAME` printed, and start the agent",
    command: "kubectl get leases -n metalbridge-hosts",
  },
  HostDeleted: {
    what: "The Host object was deleted, so its replicas are rescheduled.",
    do: "nothing to do if that was intended; otherwise register the host again",
  },
  MassExpiry: {
    what: "More than half of the Leases expired together, which suggests an outage of the network or the API server rather than of the hosts, so no endpoint was withdrawn.",
    do: "check the network between the hosts and the API server",
    command: "kubectl get leases -n metalbridge-hosts",
  },
  HostNotReady: {
    what: "The host's agent reports that the host is not ready.",
    do: "read the host's conditions",
    command: "kubectl describe host NAME",
  },
  HostCordoned: {
    what: "The host is cordoned or drained: no new replicas are scheduled on it.",
    do: "uncordon the host, which also cancels a drain, or add another host",
    command: "metalbridge uncordon NAME",
  },
  HostNotSealed: {
    what: "The service is sealed (spec.endpoint.transport), and the agent of this host has published no certificate for it.",
    do: "read TransportKeyInvalid in the log of its agent, or start an agent of this version there (docs/sealed-transport.md)",
  },
  HostRuntimeMissing: {
    what: "The runtime of the service is not installed on this host, or on any host that the service may use, or this version has no driver for it.",
    do: "run the command in the message on a host: replicas are scheduled there within 5 s, without a restart; or set spec.runtime to a runtime that hosts have (docs/engines.md)",
    command: "kubectl get host NAME -o jsonpath='{.status.runtimes}'",
  },
  HostUnderPressure: {
    what: "The host is under pressure, so no engine starts on it.",
    do: "free memory or disk on the host",
    command: "kubectl describe host NAME",
  },
  HostFlapping: {
    what: "The host is flapping: its Lease expired and was renewed several times within a short time, so no new replica is scheduled on it for now.",
    do: "find out why its Lease expires: sleep, network, power; new replicas are scheduled on it once it has been stable for 10 minutes",
    command: "kubectl describe host NAME",
  },
  HostBeyondLimit: {
    what: "The replica's claim exceeds what spec.hardware of its Model allows on this host.",
    do: "raise spec.hardware.memoryBudget or memoryFraction of the Model, or lower contextSize, parallelSlots or promptCacheMiB",
  },
  HostHeld: {
    what: "The host is reserved for a service that has been queued for a long time; services behind it in the queue cannot use it.",
    do: "wait: a reservation expires after 30 minutes",
    command: "kubectl get isvc -A --sort-by=.status.queuePosition",
  },
  MakingRoom: {
    what: "Services of lower priority are being preempted on a host to free memory for this one.",
    do: "wait until they have stopped",
    command: "kubectl get isvc NAME -o jsonpath='{.status.message}'",
  },
  Preempted: {
    what: "A service of higher priority preempted this one; it is queued again.",
    do: "wait, add a host, raise spec.priority, or set spec.placement.allowEviction to false",
    command: "kubectl get isvc NAME -o jsonpath='{.status.message}'",
  },
  HostTakenBySibling: {
    what: "spec.placement.spread is Required and the host already runs a replica of this service.",
    do: "add a host, or set spec.placement.spread to Preferred, so that replicas may share a host",
  },
  HostRefused: {
    what: "The host recently refused or evicted this replica.",
    do: "free memory on the host, or wait: it is considered again after 10 minutes",
  },
  HostMemoryUnknown: {
    what: "The host has not reported how much memory engines may use.",
    do: "set spec.memory.gpuBudget of the Host, or check its agent",
    command: "kubectl get host NAME -o jsonpath='{.status.memory}'",
  },
  HostMemoryShort: {
    what: "Insufficient memory: the replica's claim does not fit in addition to the existing claims on the host.",
    do: "free memory on the host, or lower contextSize, parallelSlots or promptCacheMiB; `metalbridge fit` lists the changes that are sufficient",
  },
  WaitingForCapacity: {
    what: "Some replicas are queued: no host has enough memory for them.",
    do: "read status.placement to find the missing resource",
    command: "kubectl get isvc NAME -o jsonpath='{.status.placement}'",
  },
  ServiceNameTaken: {
    what: "A Service of this name exists that Metalbridge did not create. It is left unchanged, so this InferenceService has no endpoint and starts no replica.",
    do: "delete or rename the other Service, or give the InferenceService another name",
    command: "kubectl get service NAME -o yaml",
  },
  NamespaceTerminating: {
    what: "The namespace is being deleted, so no new objects are created in it.",
    do: "nothing to do; its services are deleted with it",
  },
  ModelNotForMode: {
    what: "The model does not support spec.mode: mode rerank requires a file with pooling type rank or a classifier head.",
    do: "set spec.modelRef to a reranker, or correct spec.mode",
  },
  QuantizationContradicted: {
    what: "spec.quantization of the Model names another quantization than the `config.json` of its files. Pods get nodes for that of spec.quantization, and engines load what the files are.",
    do: "remove spec.quantization, or name the repository of that quantization in spec.source",
  },
  ModelNotFound: {
    what: "A Model that the service names does not exist in this namespace; running replicas keep serving.",
    do: "create the Model or correct the field that names it",
    command: "kubectl get models",
  },
  ModelNotReady: {
    what: "The Model is not resolved yet.",
    do: "wait, or read the Model's conditions",
    command: "kubectl describe model NAME",
  },
  ModelFailed: {
    what: "The Model failed; its conditions state the reason.",
    do: "correct the Model",
    command: "kubectl describe model NAME",
  },
  ModelRevisionNotFound: {
    what: "No stored revision of the service has the content that spec.modelRevision names.",
    do: "remove spec.modelRevision to serve the Model's current content, or roll back to a stored revision",
    command: "metalbridge rollout history NAME",
  },
  ModelSizeUnknown: {
    what: "The size of the model is unknown, so the scheduler cannot choose a host.",
    do: "use a source whose header can be read, or a file on the host",
    command: "kubectl describe model NAME",
  },
  NoReadyReplicas: {
    what: "No replica is ready yet.",
    do: "check the replicas",
    command: "kubectl get irep",
  },
  ReplicasNotReady: {
    what: "Some replicas are not ready yet.",
    do: "check the replicas",
    command: "kubectl get irep",
  },
  ManuallyScaledToZero: {
    what: "spec.replicas is 0.",
    do: "scale it up",
    command: "kubectl scale isvc NAME --replicas 1",
  },
  Suspended: { what: "spec.suspend is true, so all replicas are stopped.", do: "set spec.suspend to false" },
  FieldsNotHonored: {
    what: "Fields of the spec are ignored on hosts, or honored only in part; the message lists them, with what is used instead.",
    do: "remove them, or keep them for services in pods",
  },
  NoAuth: {
    what: "No API key is required: any client that reaches the Service, or a replica's port on its host, can use the model.",
    do: "set spec.auth to require a key",
  },
  GateChecksKeys: {
    what: "The hosts' gates check the API key; the message lists what can be reached without one.",
    do: "nothing to do",
  },
  EngineChecksKeys: {
    what: "The engines check the API key themselves (endpoint.gate is Never); the message lists what can be reached without one.",
    do: "nothing to do",
  },
  SealedWithoutClients: {
    what: "The Secret metalbridge-transport with the certificate of gateways and relays cannot be read or written, so that sealed replicas serve no client.",
    do: "read the log of the controller, and give it the rights of the chart (docs/sealed-transport.md)",
  },
  PlaintextOnNetwork: {
    what: "Keys, prompts and answers cross the network between clients and hosts in plain HTTP, and any machine that reaches a replica's port can send requests.",
    do: "set spec.endpoint.transport to Sealed, or transport of the chart for all services (docs/sealed-transport.md)",
  },
  TransportSealed: {
    what: "The gates of the hosts serve only the gateways and relays of this cluster, over TLS 1.3.",
    do: "nothing to do",
  },
  ServiceCertificate: {
    what: "The gates of the hosts serve HTTPS with the certificate in spec.endpoint.tls.",
    do: "nothing to do",
  },
  ContextBeyondTraining: {
    what: "A request could use more tokens than the model was trained for. The engine caps each request at the trained length, and reserves memory for the full context.",
    do: "lower spec.contextSize to the trained context length times spec.parallelSlots",
    command: "kubectl get mdl NAME -o jsonpath='{.status.gguf.contextLength}'",
  },
} as const satisfies Record<string, ErrorEntry>;
