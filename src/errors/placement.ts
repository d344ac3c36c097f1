/** Placing services on hosts. */
import type { ErrorEntry } from "./entry.ts";

export const placementErrors = {
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
  InsufficientMemory: {
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
    do: "install it on the host, or choose another spec.runtime",
    command: "kubectl get host NAME -o jsonpath='{.status.runtimes}'",
  },
  HostUnderPressure: {
    what: "The host is under pressure, so it starts no new engine.",
    do: "free memory or disk on the host",
    command: "kubectl describe host NAME",
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
} as const satisfies Record<string, ErrorEntry>;
