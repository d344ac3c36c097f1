/**
 * Connects users with hosts through the API server's proxy of a Service, which reaches only pods. The traffic is TLS between the
 * user and the host, whose certificate the user knows from the Host's status, so no intermediary can read it.
 */
import { createServer, type IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import { type Duplex, pipeline } from "node:stream";
import { REMOTE_PORT, TUNNEL_PROTOCOL } from "../../../src/api/access/remote.ts";
import { HOSTS } from "../../../src/api/kinds.ts";
import { type RemotePlace, remotePlaceOf } from "../../../src/api/remote-place.ts";
import { listenOn, retryListen } from "../../../src/http/listener.ts";
import type { KubeClient } from "../../../src/kube/types.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";

export interface TunnelOptions {
  readonly client: KubeClient;
  readonly address: string;
  /** 0 takes a free one. */
  readonly port: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly onListening?: ((port: number) => void) | undefined;
  readonly limits?: typeof TUNNEL_LIMITS;
  /** The only port of hosts that the tunnel connects to. */
  readonly hostPort?: number;
}

export const TUNNEL_LIMITS = {
  /** Maximum open tunnels, to all hosts and to one host. */
  total: 64,
  perHost: 8,
  connectMs: 5_000,
  /** Maximum duration of a tunnel, which is longer than a host follows a log. */
  longestMs: 4_000_000,
};
const REQUEST_MS = 10_000;
const KEEPALIVE_MS = 15_000;
/** Further connections are not accepted, because they must not close open tunnels. */
const MAX_CONNECTIONS = 128;

/** Stops with the signal. */
export function startTunnel(options: TunnelOptions): void {
  const { clock, log, signal, onListening } = options;
  const server = createServer({ requestTimeout: REQUEST_MS, headersTimeout: REQUEST_MS }, (_, response) => {
    response.writeHead(426, { upgrade: TUNNEL_PROTOCOL }).end(`only ${TUNNEL_PROTOCOL} is supported\n`);
  });
  server.maxConnections = MAX_CONNECTIONS;
  const open: string[] = [];
  server.on("upgrade", (request, socket, head) => {
    socket.on("error", () => socket.destroy());
    openTunnel(request, socket, head, { ...options, open }).catch((err: unknown) => {
      log.warn({ err }, "cannot open a tunnel to a host");
      socket.destroy();
    });
  });
  retryListen(() => listenOn(server, options), options, {
    clock,
    log,
    what: "tunnels to hosts",
    onListening,
  });
  signal.addEventListener("abort", () => server.close(), { once: true });
}

interface Tunnels extends TunnelOptions {
  /** Names of the hosts of all open tunnels. */
  readonly open: string[];
}

async function openTunnel(
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  tunnels: Tunnels,
): Promise<void> {
  const { open, limits = TUNNEL_LIMITS } = tunnels;
  const name = /^\/hosts\/([a-z0-9][-.a-z0-9]{0,252})$/.exec(request.url ?? "")?.[1];
  if (name === undefined || request.headers.upgrade !== TUNNEL_PROTOCOL)
    return refuse(socket, "404 Not Found", "not found");
  const isFull = open.length >= limits.total || open.filter((one) => one === name).length >= limits.perHost;
  if (isFull) return refuse(socket, "429 Too Many Requests", "too many tunnels are open; try again later");
  open.push(name);
  const closed = new Promise((resolve) => socket.once("close", resolve));
  try {
    await join(socket, head, name, tunnels);
  } finally {
    // Freed only now: after the client disconnects, the lookup or the connection to the host may still be in progress.
    void closed.then(() => open.splice(open.indexOf(name), 1));
  }
}

/** Resolves once the host is connected, or the request is refused. */
async function join(socket: Duplex, head: Buffer, name: string, tunnels: Tunnels): Promise<void> {
  const { clock, signal, limits = TUNNEL_LIMITS } = tunnels;
  const place = await placeOf(name, tunnels);
  if (typeof place === "string") return refuse(socket, "502 Bad Gateway", place);
  if (socket.destroyed) return;
  const hostSocket = await connected(place, limits.connectMs).catch((error: Error) => error);
  if (hostSocket instanceof Error) {
    const { address, port } = place;
    return refuse(
      socket,
      "502 Bad Gateway",
      `no connection from the cluster to ${address}:${port}: ${hostSocket.message}`,
    );
  }
  if (socket.destroyed || signal.aborted) {
    hostSocket.destroy();
    return void socket.destroy();
  }
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${TUNNEL_PROTOCOL}\r\n\r\n`,
  );
  if (head.length > 0) hostSocket.write(head);
  const end = (): void => {
    cancel();
    signal.removeEventListener("abort", end);
    socket.destroy();
    hostSocket.destroy();
  };
  const cancel = clock.after(limits.longestMs, end);
  signal.addEventListener("abort", end, { once: true });
  pipeline(socket, hostSocket, socket, end);
}

/** The address of the host, or a text with the reason why the tunnel does not connect to it. */
async function placeOf(
  name: string,
  { client, hostPort = REMOTE_PORT }: Tunnels,
): Promise<RemotePlace | string> {
  const host = await client.get(HOSTS, { name });
  if (!host.ok) return host.error.message;
  const place = remotePlaceOf(host.value);
  if (place === undefined) return `host ${name} offers no remote access`;
  // The host writes its status. With any port, and a network in its spec, it could lead users to any service in that network.
  if (place.port !== hostPort)
    return `its remote access is on port ${place.port}, and the tunnel connects to port ${hostPort} only: use --direct, or remove remoteAccess.port from the agent's configuration`;
  return place;
}

function connected({ address, port }: RemotePlace, timeoutMs: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: address, port, keepAlive: true, keepAliveInitialDelay: KEEPALIVE_MS });
    socket.setTimeout(timeoutMs, () => socket.destroy(new Error("no answer in time")));
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.setTimeout(0);
      resolve(socket);
    });
  });
}

function refuse(socket: Duplex, status: string, message: string): void {
  const body = `${message}
`;
  const head = [
    `HTTP/1.1 ${status}`,
    "Content-Type: text/plain; charset=utf-8",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Connection: close",
  ];
  // Destroyed, because a client that does not close its side would otherwise block a place indefinitely.
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`, () => socket.destroy());
}
