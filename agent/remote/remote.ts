/** Remote access to this host for users whom the cluster authorizes; off by default. */
import type { HostRemote } from "../../src/api/host.ts";
import { retryListen } from "../../src/http/listener.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import type { AgentConfig } from "../config/schema.ts";
import { createPeerIdentity } from "../peers/identity.ts";
import type { ReplicaSnapshot } from "../replicas/context/ports.ts";
import { createTokenAuthorizer } from "./authorize.ts";
import type { RunDoctor } from "./server.ts";

export interface RemoteOptions {
  readonly config: Pick<AgentConfig, "hostName" | "stateDir" | "remoteAccess">;
  readonly doctor: RunDoctor | undefined;
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Called when the Host's status must be written. */
  readonly onChange: () => void;
}

export interface RemoteAccess {
  /** For the Host's status; undefined while the server does not listen. */
  readonly status: () => HostRemote | undefined;
  /** Listens on this address from now on, and on no other; undefined: on none. */
  readonly listenOn: (address: string | undefined, replicas: () => readonly ReplicaSnapshot[]) => void;
}

export function createRemoteAccess({
  config,
  doctor,
  client,
  onChange,
  ...options
}: RemoteOptions): RemoteAccess {
  const { hostName, stateDir, remoteAccess } = config;
  const { clock, log, signal } = options;
  const identity = createPeerIdentity(hostName);
  let address: string | undefined;
  let port: number | undefined;
  let listening: AbortController | undefined;
  const authorize = createTokenAuthorizer({ hostName, clock, client });
  return {
    status: () => {
      if (port === undefined) return undefined;
      return {
        fingerprint: identity.fingerprint,
        port,
        logs: remoteAccess.logs,
        doctor: remoteAccess.doctor && doctor !== undefined,
      };
    },
    listenOn: (next, replicas) => {
      if (next === address) return;
      address = next;
      port = undefined;
      listening?.abort();
      if (next === undefined || signal.aborted) return;
      listening = new AbortController();
      const stop = AbortSignal.any([signal, listening.signal]);
      const attempt = async (): Promise<number> => {
        const { startRemoteServer } = await import("./server.ts");
        return startRemoteServer({
          identity,
          authorize,
          stateDir,
          clock,
          log,
          address: next,
          port: remoteAccess.port,
          replicas: remoteAccess.logs ? replicas : undefined,
          doctor: remoteAccess.doctor ? doctor : undefined,
          signal: stop,
        });
      };
      const onListening = (bound: number): void => {
        port = bound;
        onChange();
      };
      const place = { address: next, port: remoteAccess.port, signal: stop };
      retryListen(attempt, place, { clock, log, what: "remote access", onListening });
    },
  };
}
