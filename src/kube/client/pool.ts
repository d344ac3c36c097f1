/** Sockets to the API server: kept alive, limited in number, and renewed when the TLS credential changes. */
import { Agent, type RequestOptions } from "node:https";
import { createSecureContext } from "node:tls";
import type { Credential, TlsSettings } from "./credentials.ts";

type AnyAgent = NonNullable<RequestOptions["agent"]>;

export interface SocketPool {
  /** The agent for short requests, or for watches, which occupy a socket each and must not starve requests. */
  readonly agentFor: (credential: Credential, use: "request" | "watch") => AnyAgent;
  /** Closes idle sockets, which may all be dead after a timeout (sleep, changed network). */
  readonly dropIdle: () => void;
  readonly close: () => void;
}

const MAX_IDLE_SOCKETS = 2;
/** Below the server's idle timeout (90 s), so that the client closes an idle socket first. */
const IDLE_SOCKET_MS = 60_000;
const TCP_KEEPALIVE_MS = 15_000;

interface Agents {
  readonly fingerprint: string;
  readonly request: Agent;
  readonly watch: Agent;
}

/** An empty pool. Requests open at most `maxRequests` sockets, in addition to those of watches. */
export function createSocketPool(maxRequests: number): SocketPool {
  let agents: Agents | undefined;

  const agentsFor = (tls: TlsSettings): Agents => {
    const fingerprint = fingerprintOf(tls);
    if (agents?.fingerprint === fingerprint) return agents;
    const old = agents;
    agents = createAgents(tls, fingerprint, maxRequests);
    if (old !== undefined) dropIdleOf(old);
    return agents;
  };

  return {
    agentFor: (credential, use) => credential.proxyAgent ?? agentsFor(credential.tls)[use],
    dropIdle: () => {
      if (agents !== undefined) dropIdleOf(agents);
    },
    close: () => {
      agents?.request.destroy();
      agents?.watch.destroy();
    },
  };
}

function createAgents(tls: TlsSettings, fingerprint: string, maxRequests: number): Agents {
  const { rejectUnauthorized, servername, ca, cert, key, pfx, passphrase } = tls;
  // All sockets share a context, because parsing certificates for each would cost milliseconds and memory.
  const secureContext = createSecureContext({ ca, cert, key, pfx, passphrase } as Parameters<
    typeof createSecureContext
  >[0]);
  const shared = {
    keepAlive: true,
    keepAliveMsecs: TCP_KEEPALIVE_MS,
    scheduling: "lifo" as const,
    secureContext,
    ...(rejectUnauthorized === undefined ? {} : { rejectUnauthorized }),
    servername,
  };
  return {
    fingerprint,
    request: new Agent({
      ...shared,
      maxSockets: maxRequests,
      maxFreeSockets: MAX_IDLE_SOCKETS,
      timeout: IDLE_SOCKET_MS,
    }),
    watch: new Agent({ ...shared, maxFreeSockets: 1, timeout: IDLE_SOCKET_MS }),
  };
}

function dropIdleOf(agents: Agents): void {
  for (const agent of [agents.request, agents.watch]) {
    for (const sockets of Object.values(agent.freeSockets)) {
      for (const socket of sockets ?? []) socket.destroy();
    }
  }
}

function fingerprintOf(tls: TlsSettings): string {
  return Object.entries(tls)
    .map(([name, value]) => `${name}=${String(value ?? "")}`)
    .join("\n");
}
