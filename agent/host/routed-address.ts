/** The address by which this machine reaches a server, asked of its routing table. */
import { createSocket } from "node:dgram";
import { lookup } from "node:dns/promises";
import type { Clock } from "../../src/util/ports.ts";
import { addressProblem } from "../config/address.ts";

/** Reserved for documentation, so no host has them: only a default route leads there. */
const ELSEWHERE = ["192.0.2.1", "2001:db8::1"];

/**
 * The local address of the route to a server, or of the default route where the server is this machine. Undefined where
 * the server cannot be asked about: the default route of a host with several networks may be another one.
 */
export async function routedAddress(server: string): Promise<string | undefined> {
  return routeTo(await addressesOf(server));
}

/** A DNS answer is cached for this long; a failed lookup is retried sooner. */
const RESOLVED_MS = 60_000;
const FAILED_MS = 5_000;

/** For polling every second: reads the routing table each time, DNS seldom, and DNS again once the route has changed. */
export function createRouteReader(
  server: () => string,
  clock: Clock,
  resolve: (server: string) => Promise<readonly string[]> = addressesOf,
): () => Promise<string | undefined> {
  let known: { readonly addresses: readonly string[]; readonly staleAtMs: number } | undefined;
  let last: string | undefined;
  return async () => {
    if (known === undefined || clock.monotonicMs() >= known.staleAtMs) {
      const addresses = await resolve(server());
      const freshMs = addresses.length > 0 ? RESOLVED_MS : FAILED_MS;
      known = { addresses, staleAtMs: clock.monotonicMs() + freshMs };
    }
    const route = await routeTo(known.addresses);
    // Another network may have another answer for the name.
    if (route !== last) known = undefined;
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

/** IPv4 first, so that a host keeps its family whatever order the answers come in; empty where the lookup fails. */
async function addressesOf(server: string): Promise<readonly string[]> {
  const host = new URL(server).hostname.replace(/^\[|\]$/g, "");
  const found = await lookup(host, { all: true, order: "ipv4first" }).catch(() => []);
  return found.map(({ address }) => address);
}

/** To the first target that a route leads to. */
async function firstLocalAddress(targets: readonly string[]): Promise<string | undefined> {
  for (const target of targets) {
    const address = await localAddressTo(target);
    if (address !== undefined) return address;
  }
  return undefined;
}

/** Connecting a datagram socket sends nothing; it only asks the routing table. */
function localAddressTo(target: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = createSocket(target.includes(":") ? "udp6" : "udp4");
    const finish = (address: string | undefined): void => {
      socket.close();
      resolve(address);
    };
    // Not the callback of connect: it also runs after a failure, and the socket's address is then 0.0.0.0.
    socket.once("connect", () => finish(socket.address().address));
    socket.once("error", () => finish(undefined));
    socket.connect(443, target);
  });
}
