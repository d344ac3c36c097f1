/** Connections that a port holds open at once: each costs memory before anything was sent on it, TLS most. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Server, Socket } from "node:net";

export interface ConnectionLimits {
  readonly total: number;
  /** Below `total`, so that no single client keeps all others out. */
  readonly perAddress: number;
}

interface Held {
  readonly name: string;
  readonly socket: Socket;
  readonly address: string;
  /** Requests whose response is not over. */
  underWay: number;
}

/**
 * A new connection is always accepted, so that clients which only hold connections keep no probe out: past a limit the
 * oldest one without a request under way is closed, of the address that holds most. Where all have one, the oldest of them.
 */
export function limitConnections(server: Server, { total, perAddress }: ConnectionLimits): void {
  /** By address and port, the oldest first: TLS wraps the socket in another object. */
  const held = new Map<string, Held>();
  server.on("connection", (socket: Socket) => {
    const { remoteAddress: address } = socket;
    // It has been closed already.
    if (address === undefined) return void socket.destroy();
    const name = nameOf(socket);
    const one = { name, socket, address, underWay: 0 };
    const all = [...held.values()];
    const own = all.filter((other) => other.address === address);
    const replaced = toReplace(own.length >= perAddress ? own : all.length >= total ? all : []);
    if (replaced !== undefined) {
      held.delete(replaced.name);
      replaced.socket.destroy();
    }
    held.set(name, one);
    socket.once("close", () => {
      if (held.get(name) === one) held.delete(name);
    });
  });
  server.prependListener("request", ({ socket }: IncomingMessage, response: ServerResponse) => {
    const one = held.get(nameOf(socket));
    if (one === undefined) return;
    one.underWay += 1;
    response.once("close", () => {
      one.underWay -= 1;
    });
  });
}

function toReplace(some: readonly Held[]): Held | undefined {
  const idle = some.filter(({ underWay }) => underWay === 0);
  const byAddress = Map.groupBy(idle.length > 0 ? idle : some, ({ address }) => address);
  const [most] = [...byAddress.values()].sort((a, b) => b.length - a.length);
  return most?.[0];
}

function nameOf({ remoteAddress, remotePort }: Pick<Socket, "remoteAddress" | "remotePort">): string {
  return `${remoteAddress} ${remotePort}`;
}
