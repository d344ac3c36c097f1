/** Hosts' remote access: logs and doctor over the network. */
import type { ErrorEntry } from "./entry.ts";

export const remoteErrors = {
  RemoteAccessOff: {
    what: "The host does not offer remote logs or remote doctor: its administrator has not enabled them, its agent is older than this program, or the agent is not running.",
    do: "set remoteAccess in the agent's configuration on that host and restart the agent, or run the command on the host; check what the host offers with",
    command: "kubectl get host <host> -o jsonpath='{.status.remote}'",
  },
  RemoteAccessForbidden: {
    what: "This user has no right to read logs of hosts, or to run doctor on them.",
    do: "ask an administrator for the role that the message names (docs/logs.md)",
    command: "kubectl auth can-i create serviceaccounts/metalbridge-logs --subresource=token -n <namespace>",
  },
  RemoteTunnelMissing: {
    what: "The cluster has no tunnel to its hosts, or no controller serves it.",
    do: "set remoteAccess.enabled of the Helm chart; with --direct this machine connects to the host itself",
    command:
      "kubectl get endpointslices -n metalbridge-system -l kubernetes.io/service-name=metalbridge-tunnel",
  },
  RemoteHostUnreachable: {
    what: "The host does not answer on its remote access port, or another program answers.",
    do: "check that the agent is running and that the host's firewall allows the port; retry after a restart of the agent",
    command: "kubectl get host <host>",
  },
  RemoteRequestRefused: {
    what: "The host rejected the request; the message states the reason.",
    do: "follow the message; if there were too many requests, retry in a few seconds",
  },
} as const satisfies Record<string, ErrorEntry>;
