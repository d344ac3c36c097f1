/** What this host serves on its address beside its engines: weights for other hosts, and remote access for users. */
import type { KubeConnection } from "../src/kube/client/connect.ts";
import type { AgentInputs } from "./agent.ts";
import { createPeers, type Peers } from "./peers/peers.ts";
import type { ObservedHost } from "./registration/host-status.ts";
import { createRemoteAccess } from "./remote/remote.ts";
import type { ReplicaSnapshot } from "./replicas/ports.ts";
import type { ContentLookup } from "./store/content/content-sharing.ts";

export interface HostServices {
  readonly taker: Peers["taker"] | undefined;
  readonly status: () => Pick<ObservedHost, "peer" | "remote">;
  /** Called with each new connection to the cluster. */
  readonly connect: (connection: KubeConnection) => void;
  /** Serves on this address from now on; undefined: on none. */
  readonly offerOn: (
    address: string | undefined,
    what: { readonly contents: ContentLookup; readonly replicas: () => readonly ReplicaSnapshot[] },
  ) => void;
}

/** `onChange` is called when the Host's status must be written. */
export function openHostServices(
  { config, doctor, ...inputs }: AgentInputs,
  onChange: () => void,
): HostServices {
  const { clock, log, signal } = inputs;
  const { hostName, remoteAccess, dryRun } = config;
  const { enabled, port, maxRate } = config.peers;
  const peers = enabled && !dryRun ? createPeers({ hostName, port, maxRate, clock, log, signal }) : undefined;
  const remote =
    (remoteAccess.logs || remoteAccess.doctor) && !dryRun
      ? createRemoteAccess({ config, doctor, clock, log, signal, onChange })
      : undefined;
  return {
    taker: peers?.taker,
    status: () => ({ peer: peers?.status(), remote: remote?.status() }),
    connect: (connection) => {
      peers?.connect(connection);
      remote?.connect(connection);
    },
    offerOn: (address, { contents, replicas }) => {
      peers?.giveOn(address, contents);
      remote?.listenOn(address, replicas);
    },
  };
}
