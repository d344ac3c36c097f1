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
    what: "`metalbridge join` or `metalbridge agent --dry-run` found that this host cannot serve yet.",
    do: "fix the checks marked FAILED, then run it again",
    command: "metalbridge agent --dry-run",
  },
  CredentialNotRenewed: {
    what: "The agent could not renew its token, or could not write the new token to its kubeconfig.",
    do: "fix what the message names before the token expires; retried every 10 s, with the same new token on a full disk. If it expired, join again with a new token",
    command: "metalbridge host add <host>",
  },
  JoinTokenInvalid: {
    what: "The join token is invalid: it is truncated, or it is not a token of a host's account.",
    do: "copy the whole command that `metalbridge host add` printed",
    command: "metalbridge host add <host>",
  },
  JoinTokenRefused: {
    what: "The API server does not accept the join token: it was used, it has expired, a later `metalbridge host add` replaced it, or it is from another cluster.",
    do: "ask an administrator for a new join command",
    command: "metalbridge host add <host>",
  },
  JoinTokenForAnotherHost: {
    what: "The join token is for a different host than the one that the command line or the configuration names.",
    do: "omit --host-name, or join with the token of that host",
    command: "metalbridge host add <host>",
  },
  JoinNameTaken: {
    what: "A machine requested to join with the token of a group under the name of an existing Host. A group token never gives access to an existing Host.",
    do: "choose another name (--host-name); if the machine is that host and has lost its credential, ask an administrator for a join command for this host",
    command: "metalbridge host add <host>",
  },
  JoinMachineKnown: {
    what: "A machine requested to join under a different name than that of its existing Host.",
    do: "join under the name of the existing Host, or remove that Host first",
    command: "metalbridge host remove <host>",
  },
  JoinAddressTaken: {
    what: "A machine requested to join with an address that is in spec.addresses of another Host.",
    do: "pass the machine's own address (--address), or correct spec.addresses of the other Host",
    command: "kubectl get hosts.metalbridge.dev -o yaml",
  },
  JoinLimitReached: {
    what: "The token of the group has admitted its maximum number of hosts.",
    do: "ask an administrator for a token of another group, or for one host",
    command: "metalbridge host token list",
  },
  JoinNotAllowed: {
    what: "The token of the group does not admit this name or address, or the request has no valid key.",
    do: "pass a name and address that the token admits (--host-name, --address)",
    command: "metalbridge host token list",
  },
  JoinDeclined: {
    what: "An administrator has rejected the request to join.",
    do: "ask the administrator; to ask again, run the same command",
  },
  JoinRequestsFull: {
    what: "Too many join requests are pending: the quota of HostJoinRequests is exhausted.",
    do: "run the same command later; an administrator can approve or reject requests, or revoke the token of a group that creates too many",
    command: "metalbridge host token list",
  },
  JoinFailed: {
    what: "The host's credential could not be stored.",
    do: "run the command as the agent's user or as root; the join token can still be used",
  },
  AddressNotUsable: {
    what: "An EndpointSlice cannot hold this address: loopback, link-local, multicast and unspecified addresses are not allowed.",
    do: "pass the address at which cluster nodes reach this host (--address)",
  },
  AddressUnknown: {
    what: "The host has no address to serve on: no address is configured and none has a route to the API server, or its interface is down.",
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
    what: "The state folder cannot be used: it cannot be created or written, it is below a folder of another account or on a volume that is not mounted, or its path is too long for a Unix socket.",
    do: "choose a short path that the agent's user can write to, with --state-dir",
  },
  ObservationFailed: {
    what: "The agent could not read the state of its machine for 30 s, so the status of the Host may be out of date. Engines keep running; no new replicas are scheduled here.",
    do: "fix the reading that the message names, such as a network share that does not answer; retried every few seconds",
  },
  HostNotRegistered: {
    what: "The cluster has no Host object for this machine.",
    do: "register it; the agent waits until then. An agent with the right to create Hosts can do so with --register",
    command: "metalbridge host add <host> --address <address>",
  },
  HostNameTaken: {
    what: "Another running agent holds the Lease of this host name.",
    do: "stop the other agent, or rename this host with --host-name; until then this agent waits and keeps its engines; it takes over within 40 s after the other agent has stopped",
    command: "kubectl get leases -n metalbridge-hosts",
  },
} as const satisfies Record<string, ErrorEntry>;
