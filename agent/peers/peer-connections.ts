/** Limits connections to the peers' port: a client that has not proved to be a host has few, for a short time. */
import type { Socket } from "node:net";
import { setBounded } from "../../src/util/bounded-map.ts";
import type { Clock } from "../../src/util/ports.ts";

export interface PeerConnectionLimits {
  /** Maximum number of connections of one address, hosts included. */
  readonly perAddress: number;
  /** Maximum number of connections that have not proved to be a host; the next one closes the oldest of them. */
  readonly unproved: number;
  /** After an address failed to prove itself, no Host is read for it during this time. */
  readonly refusedMs: number;
}

export const PEER_CONNECTION_LIMITS: PeerConnectionLimits = {
  perAddress: 32,
  unproved: 64,
  refusedMs: 10_000,
};

const MAX_REFUSED = 1_024;

export interface PeerConnections {
  /** Called for a new connection, before its first read. */
  readonly arrive: (socket: Socket) => void;
  /** Called when the client has proved to be a host of the cluster. */
  readonly prove: (socket: Pick<Socket, "remoteAddress" | "remotePort">) => void;
  /** Called when the client is not a host of the cluster. */
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
    const count = (perAddress.get(address) ?? 1) - 1;
    if (count === 0) perAddress.delete(address);
    else perAddress.set(address, count);
    // The next connection from the same port may arrive before this one emits `close`.
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
    refuse: (address) => setBounded(refused, address, clock.monotonicMs() + limits.refusedMs, MAX_REFUSED),
    isRefused: (address) => (refused.get(address) ?? 0) > clock.monotonicMs(),
  };
}

function nameOf({
  remoteAddress = "",
  remotePort = 0,
}: Pick<Socket, "remoteAddress" | "remotePort">): string {
  return `${remoteAddress} ${remotePort}`;
}
