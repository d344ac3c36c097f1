/** Limits the open connections of a port, because each connection uses memory before it sends data, most with TLS. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Server, Socket } from "node:net";

export interface ConnectionLimits {
  readonly total: number;
  /** Lower than `total`, so that no single client blocks all others. */
  readonly perAddress: number;
}

interface Connection {
  readonly name: string;
  readonly socket: Socket;
  readonly address: string;
  /** Number of requests whose response is not finished. */
  inFlight: number;
}

/**
 * Always accepts a new connection, so that idle connections cannot block a probe. Above a limit, it closes the oldest idle
 * connection of the address with the most connections. If no connection is idle, it closes the oldest one.
 */
export function limitConnections(server: Server, { total, perAddress }: ConnectionLimits): void {
  /** By address and port, the oldest first. The socket is no key, because TLS wraps it in another object. */
  const open = new Map<string, Connection>();
  server.on("connection", (socket: Socket) => {
    const { remoteAddress: address } = socket;
    // The connection was already closed.
    if (address === undefined) return void socket.destroy();
    const name = nameOf(socket);
    const connection = { name, socket, address, inFlight: 0 };
    const all = [...open.values()];
    const own = all.filter((other) => other.address === address);
    const replaced = toReplace(own.length >= perAddress ? own : all.length >= total ? all : []);
    if (replaced !== undefined) {
      open.delete(replaced.name);
      replaced.socket.destroy();
    }
    open.set(name, connection);
    socket.once("close", () => {
      if (open.get(name) === connection) open.delete(name);
    });
  });
  server.prependListener("request", ({ socket }: IncomingMessage, response: ServerResponse) => {
    const connection = open.get(nameOf(socket));
    if (connection === undefined) return;
    connection.inFlight += 1;
    response.once("close", () => {
      connection.inFlight -= 1;
    });
  });
}

function toReplace(connections: readonly Connection[]): Connection | undefined {
  const idle = connections.filter(({ inFlight }) => inFlight === 0);
  const byAddress = Map.groupBy(idle.length > 0 ? idle : connections, ({ address }) => address);
  const [largest] = [...byAddress.values()].sort((a, b) => b.length - a.length);
  return largest?.[0];
}

function nameOf({ remoteAddress, remotePort }: Pick<Socket, "remoteAddress" | "remotePort">): string {
  return `${remoteAddress} ${remotePort}`;
}
