/** Reads the address by which this machine reaches a server from its routing table. */
import { createSocket } from "node:dgram";
import { lookup } from "node:dns/promises";
import type { Clock } from "../../src/util/ports.ts";
import { addressProblem } from "./address.ts";

/** Addresses reserved for documentation: no host has them, so only a default route leads to them. */
const ELSEWHERE = ["192.0.2.1", "2001:db8::1"];

/**
 * The local address of the route to a server, or of the default route if the server is this machine. Undefined if the server's
 * name does not resolve: a host with several networks may have a default route into another network.
 */
export async function routedAddress(server: string): Promise<string | undefined> {
  return routeTo(await addressesOf(server));
}

/** A DNS answer is cached for this long; a failed lookup is retried sooner. */
const RESOLVED_MS = 60_000;
const FAILED_MS = 5_000;

/** For polling every second: reads the routing table each time, and DNS only rarely or when the route has changed. */
export function createRouteReader(
  server: () => string,
  clock: Clock,
  resolve: (server: string) => Promise<readonly string[]> = addressesOf,
): () => Promise<string | undefined> {
  let cached: { readonly addresses: readonly string[]; readonly staleAtMs: number } | undefined;
  let last: string | undefined;
  return async () => {
    if (cached === undefined || clock.monotonicMs() >= cached.staleAtMs) {
      const addresses = await resolve(server());
      const maxAgeMs = addresses.length > 0 ? RESOLVED_MS : FAILED_MS;
      cached = { addresses, staleAtMs: clock.monotonicMs() + maxAgeMs };
    }
    const route = await routeTo(cached.addresses);
    // In another network the name may resolve to another address.
    if (route !== last) cached = undefined;
    last = route;
    return route;
  };
}

async function routeTo(targets: readonly string[]): Promise<string | undefined> {
  const address = await firstLocalAddress(targets);
  if (address === undefined || addressProblem(address) === undefined) return address;
  const other = await firstLocalAddress(ELSEWHERE);
  return other === undefined || addressProblem(other) !== undefined ? undefined : other;
}

/** IPv4 first, so that a host's address family does not depend on the order of DNS answers; empty if the lookup fails. */
async function addressesOf(server: string): Promise<readonly string[]> {
  const host = new URL(server).hostname.replace(/^\[|\]$/g, "");
  const found = await lookup(host, { all: true, order: "ipv4first" }).catch(() => []);
  return found.map(({ address }) => address);
}

/** The local address to the first target that has a route. */
async function firstLocalAddress(targets: readonly string[]): Promise<string | undefined> {
  for (const target of targets) {
    const address = await localAddressTo(target);
    if (address !== undefined) return address;
  }
  return undefined;
}

/** Connecting a datagram socket sends no packet: it only reads the routing table. */
function localAddressTo(target: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = createSocket(target.includes(":") ? "udp6" : "udp4");
    const finish = (address: string | undefined): void => {
      socket.close();
      resolve(address);
    };
    // The callback of connect is not used: it also runs after a failure, when the socket's address is 0.0.0.0.
    socket.once("connect", () => finish(socket.address().address));
    socket.once("error", () => finish(undefined));
    socket.connect(443, target);
  });
}
