/** Serves content to other hosts, and downloads content from them. */
import type { Host, HostPeer } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { HOSTS, INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import { retryListen } from "../../src/http/listener.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { startReflector } from "../../src/kube/watch/reflector.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import type { ContentLookup } from "../store/content/content-sharing.ts";
import type { PeerFetcher } from "../store/download/context.ts";
import { createRateLimiter } from "../store/download/host-limits.ts";
import { createDirectory, type PeerCluster } from "./directory.ts";
import { neededByReplica } from "./grants.ts";
import { createPeerIdentity } from "./identity.ts";
import { createPeerFetcher } from "./peer-fetcher.ts";
import { startPeerServer } from "./peer-server.ts";

export interface PeersOptions {
  readonly hostName: string;
  readonly port: number;
  /** Bytes per second. */
  readonly maxRate: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export interface Peers {
  readonly fetcher: PeerFetcher;
  /** For the Host's status. */
  readonly status: () => HostPeer;
  /** Called once the cluster is connected: from then on this host can see the others. */
  readonly connect: (connection: KubeConnection) => void;
  /** Serves content on this address from now on, and on no other; undefined: on none. */
  readonly serveOn: (address: string | undefined, contents: ContentLookup) => void;
}

export function createPeers(options: PeersOptions): Peers {
  const { hostName, clock, log, signal } = options;
  const identity = createPeerIdentity(hostName);
  const directory = createDirectory(hostName, clock, signal);
  const pace = createRateLimiter(options.maxRate, clock);
  let contents: ContentLookup | undefined;
  let address: string | undefined;
  let listening: AbortController | undefined;
  let port: number | undefined;

  return {
    fetcher: createPeerFetcher({ self: hostName, identity, directory, clock, log }),
    status: () => {
      const offers = contents?.offers() ?? [];
      return {
        fingerprint: identity.fingerprint,
        port,
        offers: offers.length === 0 ? undefined : [...offers],
      };
    },
    connect: (connection) => directory.connect(clusterOf(connection, clock, log)),
    serveOn: (next, given) => {
      contents = given;
      if (next === address) return;
      address = next;
      port = undefined;
      listening?.abort();
      if (next === undefined || signal.aborted) return;
      listening = new AbortController();
      const stop = AbortSignal.any([signal, listening.signal]);
      const place = { address: next, port: options.port, signal: stop };
      const attempt = () =>
        startPeerServer({ identity, directory, pace, clock, log, contents: given, ...place });
      const onListening = (bound: number): void => {
        port = bound;
      };
      retryListen(attempt, place, { clock, log, what: "other hosts that fetch weights", onListening });
    },
  };
}

function clusterOf(connection: KubeConnection, clock: Clock, log: Log): PeerCluster {
  const client = createClient(connection);
  return {
    watch: ({ signal, onChange, onSynced }) => {
      startReflector<Host>({
        connection,
        clock,
        log,
        signal,
        onSynced,
        kind: HOSTS,
        onChange: (_, host, before) => {
          const name = (host ?? before)?.metadata.name;
          if (name !== undefined) onChange(name, host);
        },
      });
    },
    readHost: async (name) => {
      const answer = await client.get<Host>(HOSTS, { name });
      if (answer.ok) return answer.value;
      if (answer.error.status === 404) return undefined;
      throw new Error(answer.error.message);
    },
    readAssigned: async (name) => {
      const fieldSelector = `spec.template.hostName=${name}`;
      const answer = await client.list<InferenceReplica>(INFERENCE_REPLICAS, { fieldSelector });
      if (!answer.ok) throw new Error(answer.error.message);
      return answer.value.items.flatMap(neededByReplica);
    },
  };
}
