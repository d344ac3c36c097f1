/** Connections to the peers' port: whoever has not proved to be a host has few, for a short time. */
import type { Socket } from "node:net";
import type { Clock } from "../../src/util/ports.ts";

export interface PeerConnectionLimits {
  /** Connections of one address, hosts included. */
  readonly perAddress: number;
  /** Connections that have not proved to be a host; the next one ends the oldest of these. */
  readonly unproved: number;
  /** An address that failed to prove itself is not looked up again within this time. */
  readonly refusedMs: number;
}

export const PEER_CONNECTION_LIMITS: PeerConnectionLimits = {
  perAddress: 32,
  unproved: 64,
  refusedMs: 10_000,
};

const MAX_REFUSED = 1_024;

export interface PeerConnections {
  /** A new connection, before anything is read from it. */
  readonly arrive: (socket: Socket) => void;
  /** The other end is a host of the cluster. */
  readonly prove: (socket: Pick<Socket, "remoteAddress" | "remotePort">) => void;
  /** The other end is not. */
  readonly refuse: (address: string) => void;
  readonly isRefused: (address: string) => boolean;
}

export function createPeerConnections(
  clock: Clock,
  limits: PeerConnectionLimits = PEER_CONNECTION_LIMITS,
): PeerConnections {
  const perAddress = new Map<string, number>();
  /** By remote address and port: TLS wraps the socket in another object. */
  const unproved = new Map<string, Socket>();
  const refused = new Map<string, number>();
  const leave = (address: string, name: string, socket: Socket): void => {
    const left = (perAddress.get(address) ?? 1) - 1;
    if (left === 0) perAddress.delete(address);
    else perAddress.set(address, left);
    // The next connection from the same port may arrive before the end of this one is seen.
    if (unproved.get(name) === socket) unproved.delete(name);
  };
  return {
    arrive: (socket) => {
      const address = socket.remoteAddress ?? "";
      const count = perAddress.get(address) ?? 0;
      if (count >= limits.perAddress) return void socket.destroy();
      perAddress.set(address, count + 1);
      const name = nameOf(socket);
      socket.once("close", () => leave(address, name, socket));
      unproved.set(name, socket);
      const [oldest] = unproved.values();
      if (unproved.size > limits.unproved) {
        unproved.delete(oldest === undefined ? "" : nameOf(oldest));
        oldest?.destroy();
      }
    },
    prove: (socket) => {
      unproved.delete(nameOf(socket));
      refused.delete(socket.remoteAddress ?? "");
    },
    refuse: (address) => {
      refused.delete(address);
      const [oldest] = refused.keys();
      if (refused.size >= MAX_REFUSED && oldest !== undefined) refused.delete(oldest);
      refused.set(address, clock.monotonicMs() + limits.refusedMs);
    },
    isRefused: (address) => (refused.get(address) ?? 0) > clock.monotonicMs(),
  };
}

function nameOf({
  remoteAddress = "",
  remotePort = 0,
}: Pick<Socket, "remoteAddress" | "remotePort">): string {
  return `${remoteAddress} ${remotePort}`;
}
