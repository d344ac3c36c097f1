/** Connections that a port holds open at once: each costs memory before anything was sent on it, TLS most. */
import type { Server, Socket } from "node:net";

export interface ConnectionLimits {
  readonly total: number;
  /** Below `total`, so that no single client keeps all others out. */
  readonly perAddress: number;
}

export function limitConnections(server: Server, { total, perAddress }: ConnectionLimits): void {
  const held = new Map<string, number>();
  server.maxConnections = total;
  server.on("connection", (socket: Socket) => {
    const { remoteAddress = "" } = socket;
    const count = held.get(remoteAddress) ?? 0;
    if (count >= perAddress) return void socket.destroy();
    held.set(remoteAddress, count + 1);
    socket.once("close", () => {
      const left = (held.get(remoteAddress) ?? 1) - 1;
      if (left === 0) held.delete(remoteAddress);
      else held.set(remoteAddress, left);
    });
  });
}
