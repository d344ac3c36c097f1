/** One replica on its host: admission, start, readiness, stop. */
import { HOST_ENGINE_INSTALLS } from "../fields/runtimes.ts";
import type { ErrorEntry } from "./entry.ts";

export const replicaErrors = {
  WeightsDamaged: {
    what: "Verification found a stored file that no longer matches its checksum: it was damaged on the host's disk.",
    do: "nothing to do for the model: the file was quarantined and is downloaded again when it is needed. A running engine keeps the weights that it has loaded: restart it if its output is wrong. Check the host's disk",
    command: "metalbridge models verify",
  },
  InsufficientMemory: {
    what: "The replica's memory claim does not fit in addition to the existing claims on this host.",
    do: "stop or move another service, or reduce the part of the claim that the message names: contextSize and parallelSlots, promptCacheMiB, or the model and its quantization",
    command: "metalbridge status",
  },
  MemoryPressure: {
    what: "The host is under memory pressure: no engine starts until it has recovered.",
    do: "quit other programs on the host, or move services to other hosts; engines start one at a time after 2 minutes without memory pressure",
    command: "metalbridge describe",
  },
  EvictedForMemory: {
    what: "The engine was evicted under memory pressure; it restarts automatically once the host has recovered.",
    do: "quit other programs on the host, lower contextSize, parallelSlots or promptCacheMiB, raise spec.priority, or set spec.evictionProtection",
    command: "metalbridge describe",
  },
  MemoryUnknown: {
    what: "The agent could not read how much memory engines may use on this host, so it starts none.",
    do: "find the failing reading in the Host's conditions and the agent's log",
    command: "kubectl describe host",
  },
  HostAddressMissing: {
    what: "The host has no active address that its spec.addresses allow, so no client could reach the engine.",
    do: "connect the network, or correct spec.addresses of the Host",
    command: "kubectl edit host",
  },
  RuntimeNotSupported: {
    what: "This agent has no driver for the service's runtime.",
    do: `set spec.runtime to one that has a driver on hosts: ${Object.keys(HOST_ENGINE_INSTALLS).join(", ")} or generic (docs/engines.md)`,
    command: "metalbridge status",
  },
  RunDirectoryUnreadable: {
    what: "The agent cannot read the engine's run directory, so it cannot know whether an engine runs.",
    do: "give the agent's user access to its state folder, or stop the engine and remove that directory",
  },
  EngineNeverHealthy: {
    what: "The engine ran but did not become healthy before the startup timeout, which scales with its weights.",
    do: "read the log tail in status.lastExit; raise probeOverrides.startup if the weights load from a slow disk",
  },
  EngineRequestFailed: {
    what: "The engine reported healthy but failed a real request.",
    do: "read the log tail in status.lastExit; if it ran out of GPU memory, lower contextSize or parallelSlots",
  },
  EngineHung: {
    what: "The engine process is running but fails its health probes, or makes no progress on its requests.",
    do: "wait: the agent restarts it; if this repeats, upgrade the engine, or report it with the log tail",
  },
  EngineDegraded: {
    what: "The engine logged errors after which it fails every request, and a real request failed.",
    do: "wait: the agent restarts it; if this repeats, lower contextSize or parallelSlots so that it needs less GPU memory",
  },
  EngineErrorsLogged: {
    what: "The engine logged errors after which it may fail every request, but a real request succeeded.",
    do: "nothing to do: the engine keeps serving and is monitored; if this repeats, lower contextSize or parallelSlots",
  },
  EngineEndUnknown: {
    what: "The engine process exited; its exit status is unknown.",
    do: "wait: the agent restarts it; if this repeats, check whether a program on the host kills processes",
  },
  EndpointMissing: {
    what: "The controller has not created this replica's EndpointSlice yet.",
    do: "check that a controller is running and renews its Lease",
    command: "kubectl get leases -n metalbridge-system",
  },
  EndpointRefused: {
    what: "The API server rejected the replica's endpoint.",
    do: "compare spec.addresses of the Host with the address in the message",
    command: "kubectl get host --output yaml",
  },
  EndpointNotWithdrawn: {
    what: "The engine is stopping, but the API server has not acknowledged the withdrawal of its endpoint.",
    do: "make the API server reachable from this host; the engine keeps serving until then",
  },
  SecretMissing: {
    what: "A Secret that the service names does not exist in its namespace.",
    do: "create it; the agent retries automatically",
    command: "kubectl create secret generic NAME -n NAMESPACE --from-literal=apiKey=…",
  },
  SecretUnreadable: {
    what: "The agent could not read a Secret that the service names.",
    do: "check that the controller is running and has the right to read Secrets (rbac.secrets in the chart), because it grants the host access to the Secrets of its replicas; the agent retries automatically",
  },
  SecretIncomplete: {
    what: "A Secret that the service names lacks a required key.",
    do: "add the key that the message names",
    command: "kubectl edit secret",
  },
  ApiKeysTooMany: {
    what: "The Secret of spec.auth has too many API keys, or keys that are too long.",
    do: "keep at most 1,000 keys of at most 1,024 bytes in it; the agent reads the Secret again within 5 s",
    command: "kubectl edit secret",
  },
  ReplicaFolderUnwritable: {
    what: "The agent could not write the replica's files.",
    do: "free disk space, and check the owner of the agent's state folder",
  },
  ReplicaStepFailed: {
    what: "A step of the agent failed unexpectedly; it is retried with backoff.",
    do: "read the agent's log; please report it",
  },
} as const satisfies Record<string, ErrorEntry>;
