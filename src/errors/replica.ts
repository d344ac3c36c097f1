/** One replica on its host: admission, start, readiness, end. */
import type { ErrorEntry } from "./entry.ts";

export const replicaErrors = {
  InsufficientMemory: {
    what: "The engines on this host already claim so much memory that this one does not fit.",
    do: "stop or move another service, lower contextSize or parallelSlots, or choose a smaller quantization",
    command: "metalbridge status",
  },
  MemoryPressure: {
    what: "The host's memory is short: nothing new is started on it until it has recovered.",
    do: "wait, end other programs on that host, or move services away from it; engines then start one at a time",
    command: "metalbridge describe",
  },
  EvictedForMemory: {
    what: "The engine was ended because the host's memory was short; it returns by itself when it has recovered.",
    do: "end other programs on that host, lower contextSize or parallelSlots, raise spec.priority, or set spec.evictionProtection",
    command: "metalbridge describe",
  },
  MemoryUnknown: {
    what: "The agent could not read how much memory this host may give to engines, so it starts nothing.",
    do: "look at the Host's conditions and the agent's log for the reading that fails",
    command: "kubectl describe host",
  },
  HostAddressMissing: {
    what: "The host has no address that is up and that its spec.addresses allow, so nobody could reach the engine.",
    do: "bring the network up, or correct the registered addresses",
    command: "kubectl edit host",
  },
  RuntimeNotSupported: {
    what: "This agent has no driver for the runtime that the service asks for.",
    do: "set spec.runtime to llamacpp, with a GGUF model: no other runtime has a driver in this version",
    command: "metalbridge status",
  },
  RunDirectoryUnreadable: {
    what: "The engine's run directory cannot be read, so it is not known whether an engine runs.",
    do: "give the agent's user access to its state folder, or end the engine and remove that directory",
  },
  EngineNeverHealthy: {
    what: "The engine ran but did not become healthy in the time its weights allow.",
    do: "look at the log tail in status.lastExit; raise probeOverrides.startup of the service if the weights load from a slow disk",
  },
  EngineRequestFailed: {
    what: "The engine said it was healthy but failed a real request.",
    do: "look at the log tail in status.lastExit; if it ran out of GPU memory, lower contextSize or parallelSlots",
  },
  EngineHung: {
    what: "The engine's process lives but stopped answering its health probes, or answers them and has stopped working on its requests.",
    do: "it is being restarted; if this repeats, update the engine or report it with the log tail",
  },
  EngineDegraded: {
    what: "The engine's log shows errors after which it fails every request, and a real request failed.",
    do: "it is being restarted; if this repeats, lower contextSize or parallelSlots so that it needs less GPU memory",
  },
  EngineErrorsLogged: {
    what: "The engine's log shows errors after which it may fail every request, but a real request succeeded.",
    do: "nothing: the engine serves on and is watched; if this repeats, lower contextSize or parallelSlots",
  },
  EngineEndUnknown: {
    what: "The engine ended and nothing recorded how.",
    do: "it is being restarted; if this repeats, see whether something on the host kills processes",
  },
  EndpointMissing: {
    what: "The controller has not made this replica's EndpointSlice yet.",
    do: "see whether a controller runs, in the cluster or beside it: it renews its Lease",
    command: "kubectl get leases -n metalbridge-system",
  },
  EndpointRefused: {
    what: "The API server did not take the replica's endpoint.",
    do: "compare Host.spec.addresses with the address in the message",
    command: "kubectl get host --output yaml",
  },
  EndpointNotWithdrawn: {
    what: "The engine should stop, but the API server has not acknowledged the withdrawal of its endpoint.",
    do: "make the API server reachable from this host; the engine serves until then",
  },
  SecretMissing: {
    what: "A Secret that the service names does not exist in its namespace.",
    do: "create it; the agent looks again by itself",
    command: "kubectl create secret generic",
  },
  SecretUnreadable: {
    what: "A Secret that the service names could not be read.",
    do: "give the agent's account the right to get secrets in that namespace: nothing grants it by itself; the agent looks again by itself",
  },
  SecretIncomplete: {
    what: "A Secret that the service names does not hold the key that is needed.",
    do: "add the key that the message names",
    command: "kubectl edit secret",
  },
  ReplicaFolderUnwritable: {
    what: "The agent could not write the replica's files.",
    do: "free disk space and check the owner of the agent's state folder",
  },
  ReplicaStepFailed: {
    what: "A step of the agent failed in a way it did not expect; it is tried again.",
    do: "look at the agent's log; please report it",
  },
} as const satisfies Record<string, ErrorEntry>;
