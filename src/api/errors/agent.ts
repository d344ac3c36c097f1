/** The agent: its configuration, state folder, host, registration. */
import type { ErrorEntry } from "./entry.ts";

export const agentErrors = {
  AgentConfigUnreadable: {
    what: "The agent's configuration file cannot be read, or is neither valid YAML nor valid JSON.",
    do: "fix the path, the file's permissions or its syntax",
  },
  AgentConfigInvalid: {
    what: "The agent's configuration has an unknown key or an invalid value.",
    do: "fix the key that the message names; docs/configuration.md lists all keys, `metalbridge agent --help` the flags",
  },
  PreflightFailed: {
    what: "`metalbridge agent --dry-run` found that this host cannot serve yet.",
    do: "fix the checks marked FAILED, then run it again",
    command: "metalbridge agent --dry-run",
  },
  AddressNotUsable: {
    what: "An EndpointSlice cannot hold this address: loopback, link-local, multicast and unspecified addresses are not allowed.",
    do: "pass the address at which cluster nodes reach this host (--address)",
  },
  AddressUnknown: {
    what: "The host has no address to serve on: none is configured and none routes to the API server, or its interface is down.",
    do: "pass the address at which cluster nodes reach this host (--address), or bring its interface up",
  },
  AddressNotRegistered: {
    what: "The host's address is not in spec.addresses of its Host.",
    do: "add the address to spec.addresses of the Host, or start the agent with one that is listed",
    command: "kubectl edit host",
  },
  StateDirInUse: {
    what: "Another agent uses this state folder.",
    do: "stop that agent, or choose another folder with --state-dir",
  },
  StateDirUnusable: {
    what: "The state folder cannot be created or written, or its path is too long for a Unix socket.",
    do: "choose a short path that the agent's user can write, with --state-dir",
  },
  HostNotRegistered: {
    what: "The cluster has no Host object for this machine.",
    do: "register it, or start the agent with --register if its credential may create Hosts; the agent waits until then",
    command: "metalbridge agent --register",
  },
  HostNameTaken: {
    what: "Another running agent holds the Lease of this host name.",
    do: "stop the other agent, or rename this host with --host-name; until then this agent waits and keeps its engines",
    command: "kubectl get leases -n metalbridge-hosts",
  },
} as const satisfies Record<string, ErrorEntry>;
