/** The agent: its configuration, state folder, host, registration. */
import type { ErrorEntry } from "./entry.ts";

export const agentErrors = {
  AgentConfigUnreadable: {
    what: "The agent's configuration file cannot be read, or is neither YAML nor JSON.",
    do: "correct the path, the file's permissions or its syntax",
  },
  AgentConfigInvalid: {
    what: "The agent's configuration has an unknown key or a value that cannot be used.",
    do: "correct the key that the message names; docs/configuration.md lists them all, `metalbridge agent --help` the flags",
  },
  AddressNotUsable: {
    what: "The address cannot stand in an EndpointSlice: loopback, link-local, multicast and unspecified addresses may not.",
    do: "give the address by which cluster nodes reach this host (--address)",
  },
  AddressUnknown: {
    what: "The host has no address to serve on: none is configured and none leads to the API server, or it is not up.",
    do: "give the address by which cluster nodes reach this host (--address), or bring its interface up",
  },
  AddressNotRegistered: {
    what: "The host's address is not among the addresses that its Host object allows.",
    do: "add the address to spec.addresses of the Host, or start the agent with one that is there",
    command: "kubectl edit host",
  },
  StateDirInUse: {
    what: "Another agent runs on this state folder.",
    do: "stop that agent, or give this one another folder with --state-dir",
  },
  StateDirUnusable: {
    what: "The state folder cannot be created or written, or its path is too long for a socket.",
    do: "choose a short path that the agent's user may write with --state-dir",
  },
  HostNotRegistered: {
    what: "The cluster has no Host object for this machine.",
    do: "register it, or start the agent with --register if its credential may create Hosts; it waits",
    command: "metalbridge agent --register",
  },
  HostNameTaken: {
    what: "Another live agent holds the Lease of this host name.",
    do: "stop the other agent, or give this one another name with --host-name; this one waits and keeps its engines",
    command: "kubectl get leases -n metalbridge-hosts",
  },
} as const satisfies Record<string, ErrorEntry>;
