/** Placing services on hosts. */
import type { ErrorEntry } from "./entry.ts";

export const placementErrors = {
  ControllerConfigInvalid: {
    what: "A setting of the controller is unknown or has a value that it cannot have; the message names it.",
    do: "correct the setting",
    command: "metalbridge controller --help",
  },
  NoHosts: {
    what: "No host is registered, so nothing can run.",
    do: "start an agent on a Mac and register it",
    command: "kubectl get hosts",
  },
  NoHostFits: {
    what: "No host can take this replica now; each host's own reason is in status.placement.",
    do: "read status.placement for the nearest misses and change what they name",
    command: "kubectl get isvc NAME -o jsonpath='{.status.placement}'",
  },
  NoHostWithMemory: {
    what: "The replica fits on no host beside what is claimed there already.",
    do: "use a smaller context, fewer slots or a quantised cache, free memory, or add a host",
    command: "kubectl get irep -A",
  },
  HostNotNamed: { what: "The host is not in spec.placement.hosts.", do: "add it there, or remove the list" },
  HostNotSelected: {
    what: "The host's labels do not match spec.placement.hostSelector.",
    do: "label the host or change the selector",
    command: "kubectl label host NAME KEY=VALUE",
  },
  HostLost: {
    what: "The host has been silent for so long that its replicas were given up.",
    do: "start its agent again, or delete the Host",
    command: "kubectl describe host NAME",
  },
  HostUnreachable: {
    what: "The host's agent does not renew its Lease, so its engines take no new requests.",
    do: "check that the host is on, on the network, and that its agent runs",
    command: "kubectl describe host NAME",
  },
  HostReachable: { what: "The host's agent renews its Lease.", do: "nothing to do" },
  HostNeverSeen: {
    what: "No agent has renewed the Lease of this host since the controller began to watch.",
    do: "start the agent on the host",
    command: "kubectl get leases -n metalbridge-hosts",
  },
  HostDeleted: {
    what: "The Host object was deleted, so its replicas were given up.",
    do: "nothing, if that was meant; otherwise register the host again",
  },
  MassExpiry: {
    what: "More than half of the hosts fell silent at once, which looks like an outage of the network or the API server rather than of the hosts, so nothing was withdrawn.",
    do: "check the network between the hosts and the API server",
    command: "kubectl get leases -n metalbridge-hosts",
  },
  HostNotReady: {
    what: "The host's agent says that the host is not ready.",
    do: "read the host's conditions",
    command: "kubectl describe host NAME",
  },
  HostCordoned: {
    what: "The host takes no new replicas.",
    do: "set spec.unschedulable and spec.drain of the Host to false",
    command: "kubectl edit host NAME",
  },
  HostRuntimeMissing: {
    what: "The runtime that the service needs was not found on the host.",
    do: "install llama-server on the host (brew install llama.cpp); omlx and ollama have no driver in this version yet: set spec.runtime to llamacpp, with a GGUF model",
    command: "kubectl get host NAME -o jsonpath='{.status.runtimes}'",
  },
  HostUnderPressure: {
    what: "The host is under pressure, so it starts no new engine.",
    do: "free memory or disk on the host",
    command: "kubectl describe host NAME",
  },
  HostFlapping: {
    what: "The host has come and gone several times within a short while, so nothing new is placed on it for now.",
    do: "find out why its agent falls silent: sleep, network, power",
    command: "kubectl describe host NAME",
  },
  HostBeyondLimit: {
    what: "The replica claims more than spec.hardware of its Model allows on this host.",
    do: "raise spec.hardware.memoryBudget or memoryFraction of the Model, or make the replica smaller",
  },
  HostHeld: {
    what: "The host is kept free for a service that has waited for long; those behind it in the queue go elsewhere.",
    do: "wait: a hold lasts for half an hour at most",
    command: "kubectl get isvc -A --sort-by=.status.queuePosition",
  },
  MakingRoom: {
    what: "Services of lower priority are ending on a host to make room for this one.",
    do: "wait until they have ended",
    command: "kubectl get isvc NAME -o jsonpath='{.status.message}'",
  },
  Preempted: {
    what: "A service of higher priority took this one's place; it waits for room again.",
    do: "wait, add a host, raise spec.priority, or set spec.placement.allowEviction to false",
    command: "kubectl get isvc NAME -o jsonpath='{.status.message}'",
  },
  HostTakenBySibling: {
    what: "spec.placement.spread is Required and the host runs a replica of this service already.",
    do: "add a host, ask for fewer replicas, or set spec.placement.spread to Preferred",
  },
  HostRefused: {
    what: "The host refused or evicted this replica a short while ago.",
    do: "wait, or free memory on the host",
  },
  HostMemoryUnknown: {
    what: "The host has not said how much memory models may use.",
    do: "set spec.memory.gpuBudget of the Host, or look at its agent",
    command: "kubectl get host NAME -o jsonpath='{.status.memory}'",
  },
  HostMemoryShort: {
    what: "The replica does not fit beside what is claimed on the host.",
    do: "free memory on the host or make the replica smaller",
  },
  WaitingForCapacity: {
    what: "Not every replica has a host.",
    do: "read status.placement for what is short",
    command: "kubectl get isvc NAME -o jsonpath='{.status.placement}'",
  },
  ServiceNameTaken: {
    what: "A Service of this name exists that Metalbridge did not make; it is left alone, so this service has no endpoint and nothing is started.",
    do: "delete or rename the other Service, or give the InferenceService another name",
    command: "kubectl get service NAME -o yaml",
  },
  NamespaceTerminating: {
    what: "The namespace is being deleted, so nothing new is made in it.",
    do: "nothing; everything in it ends with it",
  },
  ModelNotFound: {
    what: "The Model that spec.modelRef names does not exist in this namespace; replicas that run already go on.",
    do: "create the Model or correct spec.modelRef",
    command: "kubectl get models",
  },
  ModelNotReady: {
    what: "The Model is not resolved yet.",
    do: "wait, or read the Model's conditions",
    command: "kubectl describe model NAME",
  },
  ModelFailed: {
    what: "The Model cannot be used; its own conditions say why.",
    do: "correct the Model",
    command: "kubectl describe model NAME",
  },
  ModelSizeUnknown: {
    what: "The size of the model is not known, so nothing can say where it fits.",
    do: "use a source whose header can be read, or a file on the host",
    command: "kubectl describe model NAME",
  },
  NotYetSupported: {
    what: "This version serves models on Metal hosts only.",
    do: "set spec.hardware.accelerator of the Model to metal",
  },
  NoReadyReplicas: {
    what: "No replica answers yet.",
    do: "look at the replicas",
    command: "kubectl get irep",
  },
  ReplicasNotReady: {
    what: "Some replicas do not answer yet.",
    do: "look at the replicas",
    command: "kubectl get irep",
  },
  ManuallyScaledToZero: {
    what: "spec.replicas is 0.",
    do: "scale it up",
    command: "kubectl scale isvc NAME --replicas 1",
  },
  Suspended: { what: "spec.suspend is true, so everything is stopped.", do: "set spec.suspend to false" },
  FieldsNotHonored: {
    what: "Fields of the spec have no effect on Metal hosts, or not the one that they name; the message says which and what is used.",
    do: "remove them, or leave them for a Linux accelerator",
  },
  ContextBeyondTraining: {
    what: "A request could use more tokens than the model was trained for. The engine caps each request there, and holds the memory for all of them.",
    do: "lower spec.contextSize to what the model was trained for, times spec.parallelSlots",
    command: "kubectl get mdl NAME -o jsonpath='{.status.gguf.contextLength}'",
  },
} as const satisfies Record<string, ErrorEntry>;
