/** Hosts' remote access: logs and doctor over the network. */
import type { ErrorEntry } from "./entry.ts";

export const remoteErrors = {
  RemoteAccessOff: {
    what: "The host offers no remote logs, or no remote doctor: its administrator has not switched them on, its agent is older than this program, or it does not run.",
    do: "set remoteAccess in the agent's configuration on that host and restart the agent, or run the command on the host; to see what the host offers",
    command: "kubectl get host <host> -o jsonpath='{.status.remote}'",
  },
  RemoteAccessForbidden: {
    what: "The API server does not let this user read logs of hosts, or run doctor on them.",
    do: "ask an administrator for the role that the message names (operate.md)",
    command: "kubectl auth can-i create serviceaccounts/metalbridge-logs --subresource=token -n <namespace>",
  },
  RemoteTunnelMissing: {
    what: "The cluster has no tunnel to its hosts, or no controller answers behind it.",
    do: "set remoteAccess.enabled of the Helm chart; with --direct this machine connects to the host itself",
    command:
      "kubectl get endpointslices -n metalbridge-system -l kubernetes.io/service-name=metalbridge-tunnel",
  },
  RemoteHostUnreachable: {
    what: "The host does not answer on the port of its remote access, or another program answers there.",
    do: "check that the agent runs and that its firewall admits the port; after a restart of the agent try again",
    command: "kubectl get host <host>",
  },
  RemoteRequestRefused: {
    what: "The host answered and refused; the message says why.",
    do: "follow the message; too many requests at once: try again in a few seconds",
  },
} as const satisfies Record<string, ErrorEntry>;
